#include "shared/ops/matcher.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

at::Tensor iou_matrix(const at::Tensor& a, const at::Tensor& b) {
  const auto area = [](const at::Tensor& t) {
    return (t.select(1, 2) - t.select(1, 0)) * (t.select(1, 3) - t.select(1, 1));
  };
  const at::Tensor low = torch::max(a.unsqueeze(1).slice(2, 0, 2), b.unsqueeze(0).slice(2, 0, 2));
  const at::Tensor high = torch::min(a.unsqueeze(1).slice(2, 2), b.unsqueeze(0).slice(2, 2));
  const at::Tensor size = (high - low).clamp_min(0);
  const at::Tensor inter = size.select(2, 0) * size.select(2, 1);
  return inter / (area(a).unsqueeze(1) + area(b).unsqueeze(0) - inter);
}

// The rule with the whole [G, A] matrix, as the paper's code has it.
at::Tensor match_by_matrix(const at::Tensor& anchors, const at::Tensor& boxes,
                           const MatchOptions& options) {
  const at::Tensor quality = iou_matrix(boxes, anchors);
  const auto [best, place] = quality.max(0);
  at::Tensor matches = place.clone();
  matches.masked_fill_(best < options.foreground_iou, kIgnored);
  matches.masked_fill_(best < options.background_iou, kBackground);
  if (options.low_quality_matches) {
    const at::Tensor best_of_box = std::get<0>(quality.max(1));
    const at::Tensor tied = ((quality > 0) & (quality == best_of_box.unsqueeze(1))).any(0);
    matches = torch::where(tied, place, matches);
  }
  return matches;
}

TEST(Matcher, EqualsTheMatrixRuleOnRandomBoxes) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto type = seed % 2 == 0 ? at::kFloat : at::kDouble;
    const at::Tensor anchors =
        random_boxes({.seed = seed, .count = 700}).round().to(type);  // whole pixels: many ties
    const at::Tensor boxes =
        random_boxes({.seed = seed + 100, .count = 1 + static_cast<std::int64_t>(seed)})
            .round()
            .to(type);
    const MatchOptions options = {.low_quality_matches = seed % 3 != 0};
    EXPECT_TRUE(match_one(anchors, boxes, options).equal(match_by_matrix(anchors, boxes, options)))
        << "seed " << seed;
  }
}

// As those of a grid are: a box meets few stretches of the list.
TEST(Matcher, EqualsTheMatrixRuleOnThousandsOfAnchorsInOrder) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor some = random_boxes({.seed = 1, .count = 5000, .extent = 2000, .side = 60});
    const at::Tensor anchors = some.index_select(0, some.select(1, 1).argsort()).round().to(type);
    const at::Tensor boxes =
        random_boxes({.seed = 2, .count = 300, .extent = 2000, .side = 60}).round().to(type);
    EXPECT_TRUE(match_one(anchors, boxes).equal(match_by_matrix(anchors, boxes, {})));
  }
}

TEST(Matcher, WithoutBoxesEverythingIsBackground) {
  const at::Tensor anchors = random_boxes({.seed = 1, .count = 9});
  const at::Tensor matches = match_one(anchors, torch::zeros({0, 4}, at::kDouble));
  EXPECT_TRUE(matches.equal(torch::full({9}, kBackground, at::kLong)));
}

TEST(Matcher, ABoxThatNoAnchorMeetsHasNoBestAnchor) {
  const at::Tensor anchors =
      torch::tensor({0., 0., 10., 10., 20., 0., 30., 10., 0., 20., 10., 30.}).view({3, 4});
  const at::Tensor between = torch::tensor({12., 12., 18., 18.}).view({1, 4});
  const at::Tensor flat = torch::tensor({5., 0., 5., 10.}).view({1, 4});
  for (const at::Tensor& box : {between, flat}) {
    EXPECT_TRUE(match_one(anchors, box).equal(torch::full({3}, kBackground, at::kLong)));
  }
  const at::Tensor met = torch::tensor({8., 0., 9., 10.}).view({1, 4});
  EXPECT_TRUE(match_one(anchors, torch::cat({between, met}))
                  .equal(torch::tensor({1L, kBackground, kBackground})));
}

TEST(Matcher, TwinBoxesGoToTheFirst) {
  const at::Tensor box = torch::tensor({10., 10., 50., 50.}).view({1, 4});
  const at::Tensor matches = match_one(box, torch::cat({box, box}));
  EXPECT_EQ(matches[0].item<std::int64_t>(), 0);
}

TEST(Matcher, ThresholdsIncludeTheirOwnValue) {
  const at::Tensor box = torch::tensor({0., 0., 10., 10.}).view({1, 4});
  const at::Tensor anchors = torch::tensor({0., 0., 10., 5., 0., 0., 10., 4.,  // IoU 0.5, 0.4
                                            0., 0., 10., 3., 0., 0., 10., 10.})
                                 .view({4, 4});
  const at::Tensor matches = match_one(anchors, box, {.background_iou = 0.4F});
  EXPECT_TRUE(matches.equal(torch::tensor({0L, kIgnored, kBackground, 0L})));
}

TEST(Matcher, EachImageOfABatchHasItsOwnBoxes) {
  const at::Tensor anchors = random_boxes({.seed = 7, .count = 300}).round();
  const at::Tensor boxes = random_boxes({.seed = 8, .count = 9}).round();
  const std::vector<std::int64_t> offsets = {0, 4, 4, 9};
  const at::Tensor matches = match_anchors(anchors, boxes, torch::tensor(offsets), MatchOptions());
  ASSERT_EQ(matches.sizes(), (std::vector<std::int64_t>{3, 300}));
  for (std::size_t n = 0; n < 3; ++n) {
    const at::Tensor own = match_one(anchors, boxes.slice(0, offsets[n], offsets[n + 1]));
    const at::Tensor expected = torch::where(own >= 0, own + offsets[n], own);
    EXPECT_TRUE(matches[static_cast<std::int64_t>(n)].equal(expected)) << n;
  }
  EXPECT_EQ((matches[1] != kBackground).sum().item<std::int64_t>(), 0);
}

TEST(Matcher, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor anchors = random_boxes({.seed = 5, .count = 20000});
  const at::Tensor boxes = random_boxes({.seed = 6, .count = 30});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = match_one(anchors, boxes);
  at::set_num_threads(3);
  const at::Tensor three = match_one(anchors, boxes);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
}

}  // namespace
}  // namespace retina
