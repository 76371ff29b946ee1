#include "shared/ops/head_losses.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "shared/ops/matcher.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

// Two images of 5 anchors and 3 classes: foreground, background and ignored anchors in both.
at::Tensor some_matches() {
  return torch::tensor({0L, kBackground, kIgnored, 2L, 1L, kBackground, kIgnored, 3L, 3L, kIgnored})
      .view({2, 5});
}
at::Tensor some_labels() {
  return torch::tensor({2L, 0L, 1L, 1L});
}

// Of logits on one level, all images alike.
LossSums loss_of(const at::Tensor& logits, const FocalOptions& options = {},
                 const at::Tensor& matches = some_matches()) {
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return focal_loss({logits}, matches, some_labels(), torch::ones({logits.size(0)}, type), options);
}

// Lin et al. 2017, eq. 5, term by term.
at::Tensor by_definition(const at::Tensor& logits, const FocalOptions& options) {
  const at::Tensor matches = some_matches(), labels = some_labels();
  at::Tensor target = torch::zeros_like(logits);
  at::Tensor counted = torch::ones_like(logits);
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t a = 0; a < 5; ++a) {
      const auto match = matches[n][a].item<std::int64_t>();
      if (match >= 0) target[n][a][labels[match].item<std::int64_t>()] = 1;
      if (match == kIgnored) counted[n][a].zero_();
    }
  }
  const at::Tensor p = torch::sigmoid(logits);
  const at::Tensor right = target * p + (1 - target) * (1 - p);
  const at::Tensor alpha = options.alpha * target + (1 - options.alpha) * (1 - target);
  return (-alpha * (1 - right).pow(options.gamma) * right.log() * counted).sum({1, 2});
}

TEST(FocalLoss, EqualsThePapersFormulaAndItsGradientLeavesIgnoredAnchorsOut) {
  for (const FocalOptions options :
       {FocalOptions{.alpha = 0.25, .gamma = 2}, FocalOptions{.alpha = 0.6, .gamma = 1.5},
        FocalOptions{.alpha = 0.5, .gamma = 0}}) {
    const at::Tensor logits =
        random_tensor({.seed = 3, .shape = {2, 5, 3}, .low = -4, .high = 4}).requires_grad_();
    const at::Tensor weights = torch::tensor({0.7, -1.3}, at::kDouble);
    const LossSums ours = focal_loss({logits}, some_matches(), some_labels(), weights, options);
    const at::Tensor expected = by_definition(logits, options);
    EXPECT_TRUE(ours.sums.allclose(expected, 1e-12, 1e-14)) << options.gamma;
    (expected * weights).sum().backward();
    EXPECT_TRUE(ours.gradients[0].allclose(logits.grad(), 1e-11, 1e-13)) << options.gamma;
  }
}

TEST(FocalLoss, GradientEqualsCentralDifferences) {
  const at::Tensor logits = random_tensor({.seed = 4, .shape = {2, 5, 3}, .low = -5, .high = 5});
  const at::Tensor numeric = central_differences(
      [](const at::Tensor& x) { return loss_of(x).sums.sum().item<double>(); }, logits);
  EXPECT_LE((loss_of(logits).gradients[0] - numeric).abs().max().item<double>(), 1e-8);
}

// The sums are in f32 or wider: 10000 terms of 9.
TEST(FocalLoss, OfHalfSumsBeyondItsLargestNumber) {
  const at::Tensor logits = torch::full({1, 10000, 1}, 12, at::kHalf);
  const LossSums loss = loss_of(logits, {}, torch::full({1, 10000}, kBackground, at::kLong));
  EXPECT_NEAR(loss.sums.item<double>(), 90000, 100);
  EXPECT_TRUE(loss.gradients[0].isfinite().all().item<bool>());
}

TEST(FocalLoss, ExtremeLogitsStayFinite) {
  const at::Tensor logits = torch::tensor({-200.F, 200.F, -90.F, 90.F}).view({1, 2, 2});
  const LossSums loss = focal_loss({logits}, torch::tensor({0L, kBackground}).view({1, 2}),
                                   torch::tensor({0L}), torch::ones({1}), FocalOptions());
  // The lost foreground costs alpha * 200, the two false alarms (1 - alpha) * 200 and 90.
  EXPECT_NEAR(loss.sums.item<float>(), 0.25 * 200 + 0.75 * 290, 1e-3);
  EXPECT_TRUE(loss.gradients[0].isfinite().all().item<bool>());
}

// Foreground, background and ignored anchors take different ways through the kernel; f32 has an
// exponential and a logarithm of its own.
TEST(FocalLoss, InF32IsTheRoundedOneOfF64) {
  const at::Tensor exact =
      random_tensor({.seed = 7, .shape = {2, 900, 5}, .low = -20, .high = 20}).to(at::kFloat);
  const at::Tensor matches =
      (random_tensor({.seed = 8, .shape = {2, 900}, .low = -3, .high = 4}).floor())
          .clamp_min(kIgnored)
          .to(at::kLong);
  const LossSums wide = loss_of(exact.to(at::kDouble), {}, matches),
                 narrow = loss_of(exact, {}, matches);
  EXPECT_LE(((narrow.sums - wide.sums) / wide.sums).abs().max().item<double>(), 1e-7);
  const at::Tensor expected = wide.gradients[0];
  const at::Tensor off = (narrow.gradients[0] - expected).abs() / (expected.abs() + 1e-30);
  EXPECT_LE(off.max().item<double>(), 1e-6);
}

TEST(FocalLoss, PassesOnWhatIsNotANumber) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = torch::zeros({1, 40, 3}, type);
    logits[0][16][2] = std::nan("");
    const LossSums loss = loss_of(logits, {}, torch::full({1, 40}, kBackground, at::kLong));
    EXPECT_TRUE(std::isnan(loss.sums.item<float>()));
    EXPECT_EQ(loss.gradients[0].isnan().sum().item<std::int64_t>(), 1) << type;
  }
}

TEST(FocalLoss, AcceptsAnImageSetWithoutBoxes) {
  const LossSums loss = focal_loss(
      {torch::zeros({1, 2, 3}, at::kDouble)}, torch::full({1, 2}, kBackground, at::kLong),
      torch::zeros({0}, at::kLong), torch::ones({1}, at::kDouble), FocalOptions());
  EXPECT_NEAR(loss.sums.item<double>(), 6 * 0.75 * 0.25 * std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace retina
