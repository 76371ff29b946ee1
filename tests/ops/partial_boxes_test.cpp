#include "shared/ops/matcher.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/ops/atss.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

enum class Of { kUnion, kAnchor };
// The most that an anchor and one of the boxes have in common, as a share of their union or of the
// anchor's own area, [A].
at::Tensor most_overlap(const at::Tensor& anchors, const at::Tensor& boxes, Of of) {
  if (boxes.size(0) == 0) return torch::zeros({anchors.size(0)}, at::kDouble);
  const at::Tensor a = anchors.unsqueeze(0), b = boxes.unsqueeze(1);
  const auto area = [](const at::Tensor& of_box) {
    return (of_box.select(2, 2) - of_box.select(2, 0)) *
           (of_box.select(2, 3) - of_box.select(2, 1));
  };
  const at::Tensor sides =
      (torch::min(a.slice(2, 2), b.slice(2, 2)) - torch::max(a.slice(2, 0, 2), b.slice(2, 0, 2)))
          .clamp_min(0);
  const at::Tensor inter = sides.select(2, 0) * sides.select(2, 1);
  const at::Tensor whole = of == Of::kAnchor ? area(a) : area(a) + area(b) - inter;
  return std::get<0>((inter / whole).max(0));
}

// kIgnored, kBackground and boxes, in turn.
at::Tensor some_matches(std::int64_t images, std::int64_t anchors) {
  return (torch::arange(images * anchors) * 7 % 5 - 2).view({images, anchors});
}

TEST(PartialBoxes, IgnoreTheBackgroundThatTheyClaimOrHoldHalfOf) {
  const std::vector<std::int64_t> offsets = {0, 4, 4, 9};
  for (const auto type : {at::kFloat, at::kDouble}) {
    // Whole pixels: often just the half.
    const at::Tensor anchors = random_boxes({.seed = 1, .count = 300}).round();
    const at::Tensor boxes = random_boxes({.seed = 2, .count = 9}).round();
    const at::Tensor start = some_matches(3, 300);
    at::Tensor claims = some_matches(3, 300).flip(1).contiguous();
    claims[1].fill_(kBackground);
    const at::Tensor found = start.clone();
    ignore_partial_boxes(
        anchors.to(type),
        {.boxes = boxes.to(type), .offsets = torch::tensor(offsets), .claims = claims}, found);
    EXPECT_TRUE(found[1].equal(start[1])) << "an image without partial boxes";
    for (std::int64_t n = 0; n < 3; ++n) {
      const auto place = static_cast<std::size_t>(n);
      const at::Tensor own = boxes.slice(0, offsets[place], offsets[place + 1]);
      const at::Tensor is_near =
          claims[n].ne(kBackground) | most_overlap(anchors, own, Of::kAnchor).ge(0.5);
      EXPECT_TRUE(
          found[n].equal(start[n].masked_fill(start[n].eq(kBackground) & is_near, kIgnored)))
          << n;
    }
    EXPECT_GT((found != start).sum().item<std::int64_t>(), 50);
  }
}

TEST(PartialBoxes, HalfOfAnAnchorIsEnough) {
  const at::Tensor anchors = torch::tensor({0., 0., 10., 10.}).view({1, 4});
  const auto match_beside = [&](double top) {
    const at::Tensor matches = torch::full({1, 1}, kBackground, at::kLong);
    ignore_partial_boxes(anchors,
                         {.boxes = torch::tensor({0., top, 10., 90.}).view({1, 4}),
                          .offsets = torch::tensor({0L, 1L}),
                          .claims = matches.clone()},
                         matches);
    return matches.item<std::int64_t>();
  };
  EXPECT_EQ(match_beside(5), kIgnored);
  EXPECT_EQ(match_beside(5.001), kBackground);
  EXPECT_EQ(match_beside(10), kBackground);
  EXPECT_EQ(match_beside(50), kBackground);
}

TEST(PartialBoxes, DoNotDependOnTheNumberOfThreads) {
  const at::Tensor anchors = random_boxes({.seed = 5, .count = 20000});
  const at::Tensor boxes = random_boxes({.seed = 6, .count = 30});
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> found;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    found.push_back(some_matches(2, 20000));
    const at::Tensor claims = torch::full({2, 20000}, kBackground, at::kLong);
    ignore_partial_boxes(
        anchors, {.boxes = boxes, .offsets = torch::tensor({0L, 20L, 30L}), .claims = claims},
        found.back());
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(found[0].equal(found[1]));
}

// The matches of one image as the loss has them.
struct Assigned {
  at::Tensor real, with_partial;  // [A]
};
template <class Assign>
Assigned assigned(const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& partial,
                  const Assign& assign) {
  const at::Tensor real = assign(boxes), matches = real.clone();
  ignore_partial_boxes(anchors,
                       {.boxes = partial,
                        .offsets = torch::tensor({std::int64_t{0}, partial.size(0)}),
                        .claims = assign(partial)},
                       matches);
  return {.real = real[0], .with_partial = matches[0]};
}

// Whatever the assigner, on a thousand random images: no anchor with an IoU of 0.5 with a partial
// box is background, real boxes keep their anchors, and without partial boxes nothing changes.
template <class Assign>
void expect_no_background_at_partial_boxes(const at::Tensor& anchors, const Assign& assign) {
  std::int64_t ignored = 0, kept = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const auto image = [&](std::uint64_t which, std::int64_t most) {
      return random_boxes({.seed = 3 * seed + which,
                           .count = static_cast<std::int64_t>(seed / which) % most,
                           .extent = 90,
                           .side = which == 1 ? 60.0 : 90.0});
    };
    const at::Tensor boxes = image(1, 5), partial = image(2, 4);
    const Assigned all = assigned(anchors, boxes, partial, assign);
    const at::Tensor is_real = all.real.ge(0), changed = all.with_partial != all.real;
    ASSERT_TRUE(all.with_partial.masked_select(is_real).equal(all.real.masked_select(is_real)));
    ASSERT_TRUE(all.real.masked_select(changed).eq(kBackground).all().item<bool>());
    ASSERT_TRUE(all.with_partial.masked_select(changed).eq(kIgnored).all().item<bool>());
    if (partial.size(0) == 0) {
      ASSERT_FALSE(changed.any().item<bool>());
    }
    const at::Tensor at_partial =
        all.with_partial.masked_select(most_overlap(anchors, partial, Of::kUnion).ge(0.5));
    ASSERT_FALSE(at_partial.eq(kBackground).any().item<bool>());
    ignored += at_partial.eq(kIgnored).sum().item<std::int64_t>();
    kept += at_partial.ge(0).sum().item<std::int64_t>();
  }
  EXPECT_GT(ignored, 500);
  EXPECT_GT(kept, 30);
}

class PartialBoxesOfImages : public testing::Test {
 protected:
  PartialBoxesOfImages() {
    constexpr PixelSize kPadded = {.height = 96, .width = 96};
    const auto of_levels = level_grids(kPadded);
    grids_ = {of_levels.begin(), of_levels.end()};
    std::vector<AnchorBox> all = grid_anchors({.sizes = {16, 32, 64, 128, 256}}, kPadded);
    anchors_ =
        torch::from_blob(all.data(), {static_cast<std::int64_t>(all.size()), 4}).to(at::kDouble);
  }
  std::vector<PixelSize> grids_;
  at::Tensor anchors_;  // [A, 4] f64
};

TEST_F(PartialBoxesOfImages, LeaveNoBackgroundBesideThemWithTheIouAssigner) {
  for (const bool low_quality : {true, false}) {
    expect_no_background_at_partial_boxes(anchors_, [&](const at::Tensor& boxes) {
      return match_one(anchors_, boxes, {.low_quality_matches = low_quality}).unsqueeze(0);
    });
  }
}

TEST_F(PartialBoxesOfImages, LeaveNoBackgroundBesideThemWithAtss) {
  expect_no_background_at_partial_boxes(anchors_, [&](const at::Tensor& boxes) {
    return atss_match_anchors(anchors_, grids_, boxes,
                              torch::tensor({std::int64_t{0}, boxes.size(0)}));
  });
}

}  // namespace
}  // namespace retina
