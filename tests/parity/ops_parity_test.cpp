// Each operation alone against torchvision's.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/model/postprocess.h"
#include "shared/ops/box_coder.h"
#include "shared/ops/focal_loss.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "tests/parity/golden.h"

namespace retina {
namespace {

at::Tensor anchors_of(const std::vector<double>& sizes, PixelSize padded) {
  ModelConfig config;
  config.anchor_sizes = sizes;
  return anchors_for(config, padded);
}

// The boxes of make_golden.py's matcher_boxes.
at::Tensor matcher_boxes(bool with_far_one) {
  const at::Tensor random = draw_f32({.stream = 20, .shape = {12, 4}, .low = 0, .high = 100});
  const at::Tensor corner = random.slice(1, 0, 2);
  const at::Tensor boxes = torch::cat({corner, corner + random.slice(1, 2) + 2}, 1);
  at::Tensor extra = torch::tensor({-19., -9., 21., 31., 50., 40., 90.,   70.,   50.,   40.,
                                    90.,  70., 77., 77., 78., 78., 5000., 5000., 5010., 5010.})
                         .view({5, 4})
                         .to(at::kFloat);
  return torch::cat({boxes, with_far_one ? extra : extra.slice(0, 0, 4)});
}

std::vector<std::int64_t> run_lengths(const at::Tensor& values) {
  std::vector<std::int64_t> runs;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const auto value = values[i].item<std::int64_t>();
    if (!runs.empty() && runs[runs.size() - 2] == value) {
      ++runs.back();
    } else {
      runs.insert(runs.end(), {value, 1});
    }
  }
  return runs;
}

std::vector<std::int64_t> integers(const JsonView& numbers) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < numbers.size(); ++i) values.push_back(numbers.at(i).as_int());
  return values;
}

class OpsParity : public testing::Test {
 protected:
  const JsonFile golden_ = read_golden("ops.json");
};

TEST_F(OpsParity, AnchorsAreEqual) {
  const std::vector<std::pair<const char*, at::Tensor>> cases = {
      {"coco", anchors_of({32, 64, 128, 256, 512}, {.height = 800, .width = 1344})},
      {"odd", anchors_of({16.5, 21, 50, 100, 300}, {.height = 96, .width = 224})}};
  for (const auto& [name, anchors] : cases) {
    const JsonView golden = golden_.root().at("anchors").at(name);
    EXPECT_EQ(anchors.size(0), golden.at("count").as_int()) << name;
    EXPECT_EQ(deviation(golden.at("sample"), anchors).largest, 0) << name;
    EXPECT_LE(deviation(golden.at("sample"), anchors).relative, 1e-12) << name;
  }
}

TEST_F(OpsParity, MatchesAreEqual) {
  const at::Tensor anchors = anchors_of({32, 64, 128, 256, 512}, {.height = 160, .width = 224});
  std::size_t place = 0;
  for (const bool with_far_one : {false, true}) {
    for (const bool low_quality : {true, false}) {
      const at::Tensor matches =
          match_anchors(anchors, matcher_boxes(with_far_one), {.low_quality_matches = low_quality});
      EXPECT_EQ(run_lengths(matches), integers(golden_.root().at("matches").at(place++)))
          << with_far_one << low_quality;
    }
  }
}

TEST_F(OpsParity, EncodedAndDecodedBoxesAgree) {
  const at::Tensor boxes = matcher_boxes(false);
  const at::Tensor anchors = anchors_of({32, 64, 128, 256, 512}, {.height = 160, .width = 224})
                                 .slice(0, 100, 100 + boxes.size(0));
  const at::Tensor deltas =
      draw_f32({.stream = 30, .shape = {boxes.size(0), 4}, .low = -6, .high = 6});
  const at::Tensor encoded = table(golden_.root().at("encoded"));
  const at::Tensor decoded = table(golden_.root().at("decoded"));
  EXPECT_LE((encode_boxes(boxes, anchors) - encoded).abs().max().item<double>(), 1e-6);
  const at::Tensor error = (decode_boxes(deltas, anchors) - decoded).abs() / (1 + decoded.abs());
  EXPECT_LE(error.max().item<double>(), 1e-6);
}

TEST_F(OpsParity, SuppressionKeepsTheSameBoxesInTheSameOrder) {
  struct Case {
    const char* name;
    std::uint32_t stream;
    std::int64_t count;
  };
  // Below and above the number of boxes where the reference changes its method; many scores tie.
  for (const Case& c : {Case{"nms_few", 50, 400}, Case{"nms_many", 60, 1600}}) {
    const at::Tensor corner =
        draw_f32({.stream = c.stream, .shape = {c.count, 2}, .low = 0, .high = 300});
    const at::Tensor size =
        draw_f32({.stream = c.stream + 1, .shape = {c.count, 2}, .low = 20, .high = 60});
    const at::Tensor scores =
        (draw_f32({.stream = c.stream + 2, .shape = {c.count}}) * 64).floor() / 64;
    const at::Tensor labels =
        draw_f32({.stream = c.stream + 3, .shape = {c.count}, .low = 0, .high = 4})
            .floor()
            .to(at::kLong);
    const at::Tensor kept =
        batched_nms(torch::cat({corner, corner + size}, 1), scores, labels, 0.4);
    EXPECT_TRUE(kept.equal(list(golden_.root().at(c.name)).to(at::kLong))) << c.name;
  }
}

TEST_F(OpsParity, FocalLossAndItsGradientAgree) {
  const at::Tensor logits = draw_f32({.stream = 40, .shape = {60, 4}, .low = -6, .high = 6})
                                .unsqueeze(0)
                                .requires_grad_();
  at::Tensor matches = torch::full({1, 60}, kBackground, at::kLong);
  for (std::int64_t anchor = 0; anchor < 60; anchor += 7) matches[0][anchor] = anchor % 4;
  const at::Tensor loss =
      focal_loss(logits, matches, torch::arange(4, at::kLong), {.alpha = 0.25, .gamma = 2});
  const JsonView golden = golden_.root().at("focal");
  EXPECT_NEAR(loss.item<double>() / golden.at("sum").as_double(), 1, 1e-6);
  loss.sum().backward();
  const at::Tensor expected = table(golden.at("gradient"));
  EXPECT_LE((logits.grad()[0] - expected).abs().max().item<double>(), 1e-6);
}

}  // namespace
}  // namespace retina
