#include "shared/ops/focal_loss.h"

#include <ATen/Parallel.h>
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
    const at::Tensor values = random_tensor({.seed = 3, .shape = {2, 5, 3}, .low = -4, .high = 4});
    const at::Tensor ours = values.clone().requires_grad_(),
                     theirs = values.clone().requires_grad_();
    const at::Tensor sums = focal_loss(ours, some_matches(), some_labels(), options);
    const at::Tensor expected = by_definition(theirs, options);
    EXPECT_TRUE(sums.allclose(expected, 1e-12, 1e-14)) << options.gamma;
    const at::Tensor weights = torch::tensor({0.7, -1.3}, at::kDouble);
    (sums * weights).sum().backward();
    (expected * weights).sum().backward();
    EXPECT_TRUE(ours.grad().allclose(theirs.grad(), 1e-11, 1e-13)) << options.gamma;
  }
}

TEST(FocalLoss, GradientEqualsCentralDifferences) {
  const at::Tensor logits = random_tensor({.seed = 4, .shape = {2, 5, 3}, .low = -5, .high = 5});
  const at::Tensor leaf = logits.clone().requires_grad_();
  focal_loss(leaf, some_matches(), some_labels(), FocalOptions()).sum().backward();
  const at::Tensor numeric = central_differences(
      [](const at::Tensor& x) {
        return focal_loss(x, some_matches(), some_labels(), FocalOptions()).sum().item<double>();
      },
      logits);
  EXPECT_LE((leaf.grad() - numeric).abs().max().item<double>(), 1e-8);
}

TEST(FocalLoss, ExtremeLogitsStayFinite) {
  const at::Tensor logits =
      torch::tensor({-200.F, 200.F, -90.F, 90.F}).view({1, 2, 2}).requires_grad_();
  const at::Tensor matches = torch::tensor({0L, kBackground}).view({1, 2});
  const at::Tensor sums = focal_loss(logits, matches, torch::tensor({0L}), FocalOptions());
  sums.sum().backward();
  // The lost foreground costs alpha * 200, the two false alarms (1 - alpha) * 200 and 90.
  EXPECT_NEAR(sums.item<float>(), 0.25 * 200 + 0.75 * 290, 1e-3);
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
}

TEST(FocalLoss, HasTheSameBitsOnAnyNumberOfThreads) {
  const at::Tensor logits =
      random_tensor({.seed = 5, .shape = {2, 3000, 7}, .low = -6, .high = 6}).to(at::kFloat);
  const at::Tensor matches =
      (random_tensor({.seed = 6, .shape = {2, 3000}, .low = -2, .high = 4}).floor()).to(at::kLong);
  const auto loss = [&] { return focal_loss(logits, matches, some_labels(), FocalOptions()); };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = loss();
  at::set_num_threads(3);
  const at::Tensor three = loss();
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
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
  const at::Tensor wide = exact.to(at::kDouble).requires_grad_(),
                   narrow = exact.clone().requires_grad_();
  const at::Tensor expected = focal_loss(wide, matches, some_labels(), FocalOptions());
  const at::Tensor sums = focal_loss(narrow, matches, some_labels(), FocalOptions());
  expected.sum().backward();
  sums.sum().backward();
  EXPECT_LE(((sums - expected) / expected).abs().max().item<double>(), 1e-7);
  const at::Tensor off = (narrow.grad() - wide.grad()).abs() / (wide.grad().abs() + 1e-30);
  EXPECT_LE(off.max().item<double>(), 1e-6);
}

TEST(FocalLoss, PassesOnWhatIsNotANumber) {
  const at::Tensor logits = torch::zeros({1, 40, 3}).requires_grad_();
  logits.mutable_data_ptr<float>()[50] = std::nanf("");
  const at::Tensor sums = focal_loss(logits, torch::full({1, 40}, kBackground, at::kLong),
                                     torch::zeros({0}, at::kLong), FocalOptions());
  sums.sum().backward();
  EXPECT_TRUE(std::isnan(sums.item<float>()));
  EXPECT_EQ(logits.grad().isnan().sum().item<std::int64_t>(), 1);
}

TEST(FocalLoss, AcceptsAnImageSetWithoutBoxes) {
  const at::Tensor logits = torch::zeros({1, 2, 3}, at::kDouble);
  const at::Tensor sums = focal_loss(logits, torch::full({1, 2}, kBackground, at::kLong),
                                     torch::zeros({0}, at::kLong), FocalOptions());
  EXPECT_NEAR(sums.item<double>(), 6 * 0.75 * 0.25 * std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace retina
