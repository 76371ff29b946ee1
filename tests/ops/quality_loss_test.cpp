#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "shared/ops/box_coder.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr ClassLossKind kKinds[] = {ClassLossKind::kQualityFocal, ClassLossKind::kVarifocal};
constexpr std::int64_t kAnchors = 12, kClasses = 3;

// Two images, all anchors on one level; anchors of all kinds, and predicted boxes near their own or
// far away.
class QualityLoss : public testing::Test {
 protected:
  QualityLoss() {
    for (std::int64_t a = 0; a < kAnchors; a += 2) {
      for (std::int64_t n = 0; n < 2; ++n) {
        const auto match = matches_[n][a].item<std::int64_t>();
        if (match < 0) continue;
        deltas_[n][a] = 0.1 * deltas_[n][a] + encode_boxes(boxes_.slice(0, match, match + 1),
                                                           anchors_.slice(0, a, a + 1))[0];
      }
    }
  }

  LossSums loss(const at::Tensor& logits, ClassLossKind kind) const {
    const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return loss_of_levels({logits}, {deltas_.to(logits.scalar_type())}, kind,
                          torch::ones({2}, type));
  }
  LossSums loss_of_levels(const std::vector<at::Tensor>& logits,
                          const std::vector<at::Tensor>& deltas, ClassLossKind kind,
                          const at::Tensor& weights) const {
    const at::Tensor anchors = anchors_.to(weights.scalar_type()),
                     boxes = boxes_.to(weights.scalar_type());
    return quality_loss(logits, {.deltas = deltas, .anchors = anchors, .boxes = boxes}, matches_,
                        labels_, weights, kind);
  }

  // The IoU of the box that an anchor of image n predicts with its own.
  double quality(std::int64_t n, std::int64_t a) const {
    const at::Tensor found =
                         decode_boxes(deltas_[n].slice(0, a, a + 1), anchors_.slice(0, a, a + 1)),
                     truth = boxes_[matches_[n][a]];
    const at::Tensor low = torch::max(found[0], truth).slice(0, 0, 2),
                     high = torch::min(found[0], truth).slice(0, 2);
    const auto area = [](const at::Tensor& box) {
      return (box.slice(0, 2) - box.slice(0, 0, 2)).prod().item<double>();
    };
    const double inter = (high - low).clamp_min(0).prod().item<double>();
    return inter / (area(found[0]) + area(truth) - inter);
  }

  // Term by term, for autograd.
  at::Tensor by_definition(const at::Tensor& logits, ClassLossKind kind) const {
    const at::Tensor p = torch::sigmoid(logits);
    std::vector<at::Tensor> sums;
    for (std::int64_t n = 0; n < 2; ++n) {
      at::Tensor sum = torch::zeros({}, at::kDouble);
      for (std::int64_t a = 0; a < kAnchors; ++a) {
        const auto match = matches_[n][a].item<std::int64_t>();
        if (match == kIgnored) continue;
        for (std::int64_t k = 0; k < kClasses; ++k) {
          const bool foreground = match >= 0 && labels_[match].item<std::int64_t>() == k;
          const double q = foreground ? quality(n, a) : 0;
          const at::Tensor x = p[n][a][k], entropy = -q * x.log() - (1 - q) * (1 - x).log();
          if (kind == ClassLossKind::kQualityFocal) {
            sum = sum + (q - x).abs().pow(2) * entropy;
          } else {
            sum = sum + (q > 0 ? q * entropy : 0.75 * x.pow(2) * entropy);
          }
        }
      }
      sums.push_back(sum);
    }
    return torch::stack(sums);
  }

  const at::Tensor anchors_ = random_boxes({.seed = 1, .count = kAnchors});
  const at::Tensor boxes_ = random_boxes({.seed = 2, .count = 4});
  const at::Tensor labels_ = torch::tensor({2L, 0L, 1L, 1L});
  const at::Tensor matches_ =
      random_tensor({.seed = 3, .shape = {2, kAnchors}, .low = -2, .high = 4})
          .floor()
          .to(at::kLong);
  const at::Tensor deltas_ =
      random_tensor({.seed = 4, .shape = {2, kAnchors, 4}, .low = -1, .high = 1});
  const at::Tensor logits_ =
      random_tensor({.seed = 5, .shape = {2, kAnchors, kClasses}, .low = -5, .high = 5});
};

TEST_F(QualityLoss, EqualsThePapersFormulasAndTheirGradients) {
  double least = 1, most = 0;
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t a = 0; a < kAnchors; ++a) {
      if (matches_[n][a].item<std::int64_t>() < 0) continue;
      least = std::min(least, quality(n, a));
      most = std::max(most, quality(n, a));
    }
  }
  EXPECT_EQ(least, 0) << "some predicted boxes miss their own";
  EXPECT_GT(most, 0.7) << "and some fit";
  for (const ClassLossKind kind : kKinds) {
    const at::Tensor logits = logits_.clone().requires_grad_();
    const at::Tensor weights = torch::tensor({0.7, -1.3}, at::kDouble);
    const LossSums ours = loss_of_levels({logits}, {deltas_}, kind, weights);
    const at::Tensor expected = by_definition(logits, kind);
    EXPECT_TRUE(ours.sums.allclose(expected, 1e-12, 1e-14));
    (expected * weights).sum().backward();
    EXPECT_TRUE(ours.gradients[0].allclose(logits.grad(), 1e-10, 1e-13));
  }
}

TEST_F(QualityLoss, GradientEqualsCentralDifferences) {
  for (const ClassLossKind kind : kKinds) {
    const at::Tensor numeric = central_differences(
        [&](const at::Tensor& x) { return loss(x, kind).sums.sum().item<double>(); }, logits_);
    EXPECT_LE((loss(logits_, kind).gradients[0] - numeric).abs().max().item<double>(), 1e-8);
  }
}

TEST_F(QualityLoss, ExtremeLogitsStayFinite) {
  for (const ClassLossKind kind : kKinds) {
    for (const float size : {90.F, 200.F}) {
      const at::Tensor logits = logits_.sign().mul(size).to(at::kFloat);
      const LossSums sums = loss(logits, kind);
      EXPECT_TRUE(sums.sums.isfinite().all().item<bool>());
      EXPECT_TRUE(sums.gradients[0].isfinite().all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace retina
