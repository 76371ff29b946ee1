#include "shared/ops/head_losses.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "shared/ops/box_coder.h"
#include "shared/ops/matcher.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr BoxLossOptions kL1 = {.kind = BoxLossKind::kL1};
constexpr BoxLossOptions kSmoothL1 = {
    .kind = BoxLossKind::kSmoothL1, .smooth_l1_beta = 0.5, .target_std = 0.8};
constexpr BoxLossOptions kGiou = {.kind = BoxLossKind::kGiou};
constexpr BoxLossOptions kCiou = {.kind = BoxLossKind::kCiou};

class BoxLoss : public testing::Test {
 protected:
  LossSums loss(const at::Tensor& deltas, const BoxLossOptions& options) const {
    return box_loss({deltas}, anchors_, boxes_, matches_, torch::ones({2}, at::kDouble), options);
  }
  // Boxes and anchors of the foreground anchors of image n, and their deltas.
  struct Rows {
    at::Tensor boxes, anchors, deltas;
  };
  Rows foreground(std::int64_t n) const {
    const at::Tensor rows = (matches_[n] >= 0).nonzero().squeeze(1);
    return {.boxes = boxes_.index_select(0, matches_[n].index_select(0, rows)),
            .anchors = anchors_.index_select(0, rows),
            .deltas = deltas_[n].index_select(0, rows)};
  }
  void expect_gradient_of_differences(const at::Tensor& deltas, const BoxLossOptions& options,
                                      double bound) const {
    const at::Tensor numeric = central_differences(
        [&](const at::Tensor& x) { return loss(x, options).sums.sum().item<double>(); }, deltas);
    EXPECT_LE((loss(deltas, options).gradients[0] - numeric).abs().max().item<double>(), bound);
  }

  const at::Tensor anchors_ = random_boxes({.seed = 1, .count = 6});
  const at::Tensor boxes_ = random_boxes({.seed = 2, .count = 3});
  const at::Tensor matches_ = torch::tensor({0L, kBackground, 2L, kIgnored, 1L, 0L, kBackground,
                                             kBackground, kIgnored, 2L, kBackground, kBackground})
                                  .view({2, 6});
  const at::Tensor deltas_ = random_tensor({.seed = 3, .shape = {2, 6, 4}, .low = -2, .high = 2});
};

TEST_F(BoxLoss, L1SumsDistancesOfForegroundAnchorsFromTheirEncodedBoxes) {
  const at::Tensor sums = loss(deltas_, kL1).sums;
  for (std::int64_t n = 0; n < 2; ++n) {
    const Rows rows = foreground(n);
    const at::Tensor target = encode_boxes(rows.boxes, rows.anchors);
    EXPECT_NEAR(sums[n].item<double>(), (rows.deltas - target).abs().sum().item<double>(), 1e-12);
  }
}

TEST_F(BoxLoss, SmoothL1IsQuadraticBelowBetaOfTheScaledError) {
  const at::Tensor sums = loss(deltas_, kSmoothL1).sums;
  for (std::int64_t n = 0; n < 2; ++n) {
    const Rows rows = foreground(n);
    const at::Tensor error = (rows.deltas - encode_boxes(rows.boxes, rows.anchors)).abs() / 0.8;
    const at::Tensor terms = torch::where(error < 0.5, error * error / (2 * 0.5), error - 0.25);
    EXPECT_NEAR(sums[n].item<double>(), terms.sum().item<double>(), 1e-12);
  }
}

// Rezatofighi et al. 2019, algorithm 1, of two boxes.
double one_minus_giou(const at::Tensor& found, const at::Tensor& truth) {
  const at::Tensor low = torch::max(found, truth).slice(0, 0, 2);
  const at::Tensor high = torch::min(found, truth).slice(0, 2);
  const double inter = (high - low).clamp_min(0).prod().item<double>();
  const auto area = [](const at::Tensor& b) {
    return (b.slice(0, 2) - b.slice(0, 0, 2)).prod().item<double>();
  };
  const double joint = area(found) + area(truth) - inter;
  const double hull =
      (torch::max(found, truth).slice(0, 2) - torch::min(found, truth).slice(0, 0, 2))
          .prod()
          .item<double>();
  return 1 - (inter / joint - (hull - joint) / hull);
}

TEST_F(BoxLoss, GiouComparesTheDecodedBoxes) {
  const at::Tensor sums = loss(deltas_, kGiou).sums;
  for (std::int64_t n = 0; n < 2; ++n) {
    const Rows rows = foreground(n);
    const at::Tensor found = decode_boxes(rows.deltas, rows.anchors);
    double expected = 0;
    for (std::int64_t i = 0; i < found.size(0); ++i) {
      expected += one_minus_giou(found[i], rows.boxes[i]);
    }
    EXPECT_NEAR(sums[n].item<double>(), expected, 1e-8);
  }
}

TEST_F(BoxLoss, GiouOfTheBoxItselfIsZeroAndOfADistantOneNearsTwo) {
  const at::Tensor matches = torch::tensor({0L}).view({1, 1});
  const auto giou = [&](const at::Tensor& anchor, const at::Tensor& box) {
    return box_loss({torch::zeros({1, 1, 4}, at::kDouble)}, anchor.view({1, 4}), box.view({1, 4}),
                    matches, torch::ones({1}, at::kDouble), kGiou)
        .sums.item<double>();
  };
  const at::Tensor box = torch::tensor({10., 20., 40., 50.}, at::kDouble);
  EXPECT_NEAR(giou(box, box), 0, 1e-9);
  EXPECT_NEAR(giou(box, box + 1e4), 2, 1e-4);
}

// Zheng et al. 2020, eq. 10, of two boxes; alpha of eq. 12, or as given.
struct Ciou {
  double loss, alpha;
};
Ciou one_minus_ciou(const at::Tensor& found, const at::Tensor& truth,
                    std::optional<double> alpha = std::nullopt) {
  const auto at = [](const at::Tensor& box, int i) { return box[i].item<double>(); };
  double apart = 0, diagonal = 0, inter = 1, area_found = 1, area_truth = 1;
  for (int i = 0; i < 2; ++i) {
    const double low = std::min(at(found, i), at(truth, i)),
                 high = std::max(at(found, 2 + i), at(truth, 2 + i));
    apart += std::pow((at(found, i) + at(found, 2 + i) - at(truth, i) - at(truth, 2 + i)) / 2, 2);
    diagonal += std::pow(high - low, 2);
    inter *= std::max(
        0., std::min(at(found, 2 + i), at(truth, 2 + i)) - std::max(at(found, i), at(truth, i)));
    area_found *= at(found, 2 + i) - at(found, i);
    area_truth *= at(truth, 2 + i) - at(truth, i);
  }
  const auto angle = [&](const at::Tensor& box) {
    return std::atan((at(box, 2) - at(box, 0)) / (at(box, 3) - at(box, 1)));
  };
  const double iou = inter / (area_found + area_truth - inter);
  const double v = 4 / std::pow(std::acos(-1.), 2) * std::pow(angle(truth) - angle(found), 2);
  const double weight = alpha.value_or(v == 0 ? 0 : v / (1 - iou + v));
  return {.loss = 1 - iou + apart / diagonal + weight * v, .alpha = weight};
}

TEST_F(BoxLoss, CiouComparesTheDecodedBoxes) {
  const at::Tensor sums = loss(deltas_, kCiou).sums;
  for (std::int64_t n = 0; n < 2; ++n) {
    const Rows rows = foreground(n);
    const at::Tensor found = decode_boxes(rows.deltas, rows.anchors);
    double expected = 0;
    for (std::int64_t i = 0; i < found.size(0); ++i) {
      expected += one_minus_ciou(found[i], rows.boxes[i]).loss;
    }
    EXPECT_NEAR(sums[n].item<double>(), expected, 1e-6);
  }
}

// Its alpha does not move with the box: the differences are those of the loss with alpha held.
TEST_F(BoxLoss, CiouGradientEqualsCentralDifferencesWithAlphaConstant) {
  for (const double noise : {0.1, 0.5, 1.0}) {
    const at::Tensor deltas = noise * deltas_;
    const at::Tensor gradient = loss(deltas, kCiou).gradients[0];
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t a = 0; a < 6; ++a) {
        const auto match = matches_[n][a].item<std::int64_t>();
        if (match < 0) continue;
        const at::Tensor anchor = anchors_.slice(0, a, a + 1);
        const auto ciou = [&](const at::Tensor& x, std::optional<double> alpha) {
          return one_minus_ciou(decode_boxes(x.view({1, 4}), anchor)[0], boxes_[match], alpha);
        };
        const double alpha = ciou(deltas[n][a], std::nullopt).alpha;
        const at::Tensor numeric = central_differences(
            [&](const at::Tensor& x) { return ciou(x, alpha).loss; }, deltas[n][a]);
        EXPECT_LE((gradient[n][a] - numeric).abs().max().item<double>(), 1e-7);
      }
    }
  }
}

TEST_F(BoxLoss, CiouOfABoxWithoutWidthStaysFinite) {
  at::Tensor deltas = deltas_.to(at::kFloat);
  deltas.slice(2, 2).fill_(-200);
  const LossSums sums = box_loss({deltas}, anchors_.to(at::kFloat), boxes_.to(at::kFloat), matches_,
                                 torch::ones({2}), kCiou);
  EXPECT_TRUE(sums.sums.isfinite().all().item<bool>());
  EXPECT_TRUE(sums.gradients[0].isfinite().all().item<bool>());
}

TEST_F(BoxLoss, GradientsEqualCentralDifferences) {
  for (const BoxLossOptions& options : {kL1, kSmoothL1, kGiou}) {
    expect_gradient_of_differences(deltas_, options, 1e-8);
  }
}

TEST_F(BoxLoss, GiouGradientHoldsForBoxesInsideAcrossAndApart) {
  // Near the target boxes: overlaps of every kind; scaled deltas: boxes far away and tiny.
  at::Tensor near = torch::zeros_like(deltas_);
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t a = 0; a < 6; ++a) {
      const auto match = matches_[n][a].item<std::int64_t>();
      if (match < 0) continue;
      near[n][a] = encode_boxes(boxes_.slice(0, match, match + 1), anchors_.slice(0, a, a + 1))[0];
    }
  }
  for (const double noise : {0.05, 0.3, 1.0}) {
    expect_gradient_of_differences(near + noise * deltas_, kGiou, 1e-7);
  }
}

TEST_F(BoxLoss, GiouGivesNoGradientToASizeBeyondWhatDecodingBelieves) {
  at::Tensor deltas = deltas_.clone();
  deltas.select(2, 2).fill_(kMaxLogSize + 1);
  const at::Tensor gradient = loss(deltas, kGiou).gradients[0];
  EXPECT_EQ(gradient.select(2, 2).abs().max().item<double>(), 0);
  EXPECT_GT(gradient.select(2, 3).abs().max().item<double>(), 0);
}

TEST_F(BoxLoss, IsZeroWithoutBoxes) {
  for (const BoxLossOptions& options : {kL1, kSmoothL1, kGiou, kCiou}) {
    const LossSums none = box_loss({deltas_}, anchors_, torch::zeros({0, 4}, at::kDouble),
                                   torch::full({2, 6}, kBackground, at::kLong),
                                   torch::ones({2}, at::kDouble), options);
    EXPECT_EQ(none.sums.abs().sum().item<double>(), 0);
    EXPECT_EQ(none.gradients[0].abs().sum().item<double>(), 0);
  }
}

}  // namespace
}  // namespace retina
