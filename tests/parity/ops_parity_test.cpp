// Each operation alone against torchvision's.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/data/batch.h"
#include "shared/image/resize.h"
#include "shared/model/postprocess.h"
#include "shared/ops/atss.h"
#include "shared/ops/box_coder.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "tests/ops/test_tensors.h"
#include "tests/parity/golden.h"
#include "tests/parity/table.h"

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

// Adds a row for an operation alone.
bool row(const char* rung, double error, double bound) {
  return holds({.rung = rung, .config = "-", .error = error, .bound = bound});
}

double largest(const at::Tensor& difference) {
  return difference.abs().max().item<double>();
}

std::int64_t differing(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  if (a.size() != b.size()) return static_cast<std::int64_t>(std::max(a.size(), b.size()));
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

TEST_F(OpsParity, ResizedImagesAgree) {
  const JsonView cases = golden_.root().at("resize");
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const JsonView golden = cases.at(i);
    std::array<int, 5> shape = {};  // stream, height, width, min side, max side
    for (std::size_t k = 0; k < shape.size(); ++k) {
      shape[k] = static_cast<int>(golden.at("picture").at(k).as_int());
    }
    const auto [stream, height, width, min_side, max_side] = shape;
    const at::Tensor values = draw_f32({.stream = static_cast<std::uint32_t>(stream),
                                        .shape = {height, width, 3},
                                        .low = 0,
                                        .high = 256})
                                  .floor()
                                  .to(at::kByte);
    Image image(width, height);
    std::copy_n(values.const_data_ptr<std::uint8_t>(), values.numel(), image.rgb.begin());
    const ResizedSize size = resized_size(width, height, min_side, max_side);
    EXPECT_EQ(size.height, golden.at("size").at(std::size_t{0}).as_int());
    EXPECT_EQ(size.width, golden.at("size").at(1).as_int());
    const int padded_height = padded_side_px(size.height),
              padded_width = padded_side_px(size.width);
    EXPECT_EQ(padded_height, golden.at("padded").at(std::size_t{0}).as_int());
    const at::Tensor planes = torch::zeros({3, padded_height, padded_width});
    resize_normalise(image,
                     {.width = size.width,
                      .height = size.height,
                      .row_stride = padded_width,
                      .plane_stride = std::int64_t{padded_width} * padded_height},
                     Normalisation{}, planes.mutable_data_ptr<float>());
    const Deviation error = deviation(golden.at("sample"), planes);
    worst = std::max({worst, error.largest, error.relative});
  }
  EXPECT_TRUE(row("resize, normalise, pad: absolute", worst, 1e-5));
}

TEST_F(OpsParity, AnchorsAreEqual) {
  const std::vector<std::pair<const char*, at::Tensor>> cases = {
      {"coco", anchors_of({32, 64, 128, 256, 512}, {.height = 800, .width = 1344})},
      {"odd", anchors_of({16.5, 21, 50, 100, 300}, {.height = 96, .width = 224})}};
  double worst = 0;
  for (const auto& [name, anchors] : cases) {
    const JsonView golden = golden_.root().at("anchors").at(name);
    EXPECT_EQ(anchors.size(0), golden.at("count").as_int()) << name;
    const Deviation error = deviation(golden.at("sample"), anchors);
    worst = std::max(worst, error.largest);
    EXPECT_LE(error.relative, 1e-8) << name;  // the file keeps 9 digits of the sums
  }
  EXPECT_TRUE(row("anchors, px", worst, 0));
}

TEST_F(OpsParity, MatchesAreEqual) {
  const at::Tensor anchors = anchors_of({32, 64, 128, 256, 512}, {.height = 160, .width = 224});
  const JsonView golden = golden_.root().at("matches");
  std::int64_t count = 0;
  for (const bool with_far_one : {false, true}) {
    for (const bool low_quality : {true, false}) {
      const at::Tensor matches =
          match_one(anchors, matcher_boxes(with_far_one), {.low_quality_matches = low_quality});
      // A box that no anchor meets is as none here: torchvision forces all anchors to learn one.
      const std::size_t place = low_quality ? 0U : with_far_one ? 3U : 1U;
      count += differing(run_lengths(matches), integers(golden.at(place)));
    }
  }
  EXPECT_TRUE(row("matcher, with and without forced: differing", static_cast<double>(count), 0));
}

TEST_F(OpsParity, AdaptiveMatchesAreEqual) {
  constexpr PixelSize kPadded = {.height = 160, .width = 224};
  const at::Tensor anchors = anchors_of({32, 64, 128, 256, 512}, kPadded);
  const auto grids = level_grids(kPadded);
  std::int64_t count = 0;
  for (const bool with_far_one : {false, true}) {
    const at::Tensor boxes = matcher_boxes(with_far_one);
    const at::Tensor matches = atss_match_anchors(anchors, {grids.begin(), grids.end()}, boxes,
                                                  torch::tensor({std::int64_t{0}, boxes.size(0)}));
    count += differing(run_lengths(matches[0]),
                       integers(golden_.root().at("atss").at(with_far_one ? 1U : 0U)));
  }
  EXPECT_TRUE(row("ATSS: differing", static_cast<double>(count), 0));
}

// Anchors of 16 boxes.
at::Tensor some_anchors() {
  return anchors_of({32, 64, 128, 256, 512}, {.height = 160, .width = 224}).slice(0, 100, 116);
}

TEST_F(OpsParity, EncodedAndDecodedBoxesAgree) {
  const at::Tensor boxes = matcher_boxes(false), anchors = some_anchors();
  const at::Tensor deltas = draw_f32({.stream = 30, .shape = {16, 4}, .low = -6, .high = 6});
  const at::Tensor encoded = table(golden_.root().at("encoded"));
  const at::Tensor decoded = table(golden_.root().at("decoded"));
  EXPECT_TRUE(row("box encoding, absolute", largest(encode_boxes(boxes, anchors) - encoded), 1e-6));
  EXPECT_TRUE(row("box decoding, relative",
                  largest((decode_boxes(deltas, anchors) - decoded) / (1 + decoded.abs())), 1e-6));
}

TEST_F(OpsParity, SuppressionKeepsTheSameBoxesInTheSameOrder) {
  struct Case {
    const char* name;
    std::uint32_t stream;
    std::int64_t count;
  };
  std::int64_t count = 0;
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
        batched_nms(torch::cat({corner, corner + size}, 1), scores, labels, 0.4).contiguous();
    const auto* first = kept.const_data_ptr<std::int64_t>();
    count += differing({first, first + kept.numel()}, integers(golden_.root().at(c.name)));
  }
  EXPECT_TRUE(row("NMS, order included: differing", static_cast<double>(count), 0));
}

TEST_F(OpsParity, FocalLossAndItsGradientAgree) {
  const at::Tensor logits =
      draw_f32({.stream = 40, .shape = {60, 4}, .low = -6, .high = 6}).unsqueeze(0);
  at::Tensor matches = torch::full({1, 60}, kBackground, at::kLong);
  for (std::int64_t anchor = 0; anchor < 60; anchor += 7) matches[0][anchor] = anchor % 4;
  const LossSums loss = focal_loss({logits}, matches, torch::arange(4, at::kLong), torch::ones({1}),
                                   {.alpha = 0.25, .gamma = 2});
  const JsonView golden = golden_.root().at("focal");
  const double error = std::abs(loss.sums.item<double>() / golden.at("sum").as_double() - 1);
  EXPECT_TRUE(row("focal loss, relative", error, 1e-6));
  const at::Tensor expected = table(golden.at("gradient"));
  EXPECT_TRUE(
      row("focal loss: gradient, absolute", largest(loss.gradients[0][0] - expected), 1e-6));
}

// The boxes and deltas of make_golden.py's box_loss_case: near the boxes, then far and huge.
struct BoxLossInput {
  at::Tensor deltas, anchors, boxes, matches;
};
BoxLossInput box_loss_input(at::ScalarType type) {
  const at::Tensor boxes = matcher_boxes(false), anchors = some_anchors();
  const at::Tensor near = encode_boxes(boxes, anchors) +
                          draw_f32({.stream = 31, .shape = {16, 4}, .low = -0.4, .high = 0.4});
  const at::Tensor far = draw_f32({.stream = 30, .shape = {16, 4}, .low = -6, .high = 6});
  return {.deltas = torch::cat({near, far}).unsqueeze(0).to(type),
          .anchors = anchors.repeat({2, 1}).to(type),
          .boxes = boxes.to(type),
          .matches = torch::arange(16, at::kLong).repeat({2}).unsqueeze(0)};
}

LossSums box_loss_of(const BoxLossInput& input, const BoxLossOptions& options) {
  return box_loss({input.deltas}, input.anchors, input.boxes, input.matches,
                  torch::ones({1}, input.boxes.scalar_type()), options);
}

constexpr std::pair<const char*, BoxLossOptions> kBoxLosses[] = {
    {"l1", {.kind = BoxLossKind::kL1}},
    {"smooth-l1", {.kind = BoxLossKind::kSmoothL1}},
    {"keras", {.kind = BoxLossKind::kSmoothL1, .target_std = 0.2}},
    {"giou", {.kind = BoxLossKind::kGiou}},
    {"ciou", {.kind = BoxLossKind::kCiou}}};

TEST_F(OpsParity, EveryQualityLossAndItsGradientAgree) {
  for (const auto& [name, kind] : {std::pair{"quality-focal", ClassLossKind::kQualityFocal},
                                   std::pair{"varifocal", ClassLossKind::kVarifocal}}) {
    const BoxLossInput input = box_loss_input(at::kFloat);
    // What the anchors of background predict changes nothing.
    const std::vector<at::Tensor> deltas = {
        torch::cat({input.deltas, input.deltas.slice(1, 0, 16)}, 1)};
    const at::Tensor anchors = torch::cat({input.anchors, input.anchors.slice(0, 0, 16)}),
                     background = torch::full({1, 16}, kBackground, at::kLong);
    const LossSums loss =
        quality_loss({draw_f32({.stream = 41, .shape = {1, 48, 4}, .low = -6, .high = 6})},
                     {.deltas = deltas, .anchors = anchors, .boxes = input.boxes},
                     torch::cat({input.matches, background}, 1),
                     torch::arange(16, at::kLong).remainder(4), torch::ones({1}), kind);
    const JsonView golden = golden_.root().at("quality_loss").at(name);
    const double error = std::abs(loss.sums.item<double>() / golden.at("sum").as_double() - 1);
    EXPECT_TRUE(row(cat(name, " loss, relative").c_str(), error, 1e-6));
    const at::Tensor expected = table(golden.at("gradient"));
    EXPECT_TRUE(row(cat(name, " loss: gradient, relative").c_str(),
                    largest(loss.gradients[0][0] - expected) / largest(expected), 1e-5));
  }
}

TEST_F(OpsParity, EveryBoxLossAndItsGradientAgree) {
  for (const auto& [name, options] : kBoxLosses) {
    const LossSums loss = box_loss_of(box_loss_input(at::kFloat), options);
    const JsonView golden = golden_.root().at("box_loss").at(name);
    const double error = std::abs(loss.sums.item<double>() / golden.at("sum").as_double() - 1);
    EXPECT_TRUE(row(cat("box loss ", name, ", relative").c_str(), error, 1e-6));
    const at::Tensor expected = table(golden.at("gradient"));
    const at::Tensor difference = loss.gradients[0][0] - expected;
    EXPECT_TRUE(row(cat("box loss ", name, ": gradient, relative").c_str(),
                    largest(difference) / largest(expected), 1e-5));
  }
}

TEST_F(OpsParity, EveryLossGradientEqualsCentralDifferencesInF64) {
  for (const auto& [name, options] : kBoxLosses) {
    if (options.kind == BoxLossKind::kCiou) continue;  // a part of it is held constant
    BoxLossInput input = box_loss_input(at::kDouble);
    const at::Tensor gradient = box_loss_of(input, options).gradients[0];
    const at::Tensor numeric = central_differences(
        [&, chosen = options](const at::Tensor& x) {
          input.deltas = x;
          return box_loss_of(input, chosen).sums.item<double>();
        },
        input.deltas.clone());
    EXPECT_TRUE(row(cat("box loss ", name, " against f64 differences").c_str(),
                    largest(gradient - numeric) / largest(numeric), 1e-7));
  }
}

}  // namespace
}  // namespace retina
