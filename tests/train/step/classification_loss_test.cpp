#include "train/step/classification_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace retina {
namespace {

// [3, 4] f64: the first is right, the second third best, the last a tie with a lower label.
at::Tensor some_logits() {
  return torch::tensor({2.0, 0.5, -1.0, 0.0,   //
                        1.0, 3.0, 0.25, -2.0,  //
                        0.5, 0.5, -1.0, 0.25})
      .view({3, 4})
      .to(at::kDouble)
      .requires_grad_();
}

ClassificationTargets targets(std::vector<std::int64_t> counts) {
  return {.labels = torch::tensor({0, 2, 1}, at::kLong),
          .counts = torch::tensor(counts, at::kLong)};
}

double by_hand(const at::Tensor& logits, std::int64_t image, std::int64_t label, double smoothing) {
  const at::Tensor row = logits.detach()[image];
  const at::Tensor log_shares = row - row.exp().sum().log();
  return -((1 - smoothing) * log_shares[label] + smoothing * log_shares.mean()).item<double>();
}

TEST(ClassificationLoss, IsTheMeanCrossEntropyOfTheWholeStepsRealImages) {
  const at::Tensor logits = some_logits();
  for (const double smoothing : {0.0, 0.1}) {
    const double expected = (by_hand(logits, 0, 0, smoothing) + by_hand(logits, 1, 2, smoothing) +
                             by_hand(logits, 2, 1, smoothing)) /
                            8;
    const ClassificationLoss loss = classification_loss(logits, targets({1, 1, 1}), smoothing, 8);
    EXPECT_NEAR(loss.cross_entropy.item<double>(), expected, 1e-15);
  }
}

TEST(ClassificationLoss, CountsHitsAndGivesTiesToTheLowerLabel) {
  const ClassificationLoss loss = classification_loss(some_logits(), targets({1, 1, 1}), 0, 3);
  EXPECT_NEAR(loss.top1.item<double>(), 1.0 / 3, 1e-15);
  EXPECT_NEAR(loss.top5.item<double>(), 1, 1e-15) << "there are four classes";
}

TEST(ClassificationLoss, PadSlotsCountNothingAndTeachNothing) {
  const at::Tensor logits = some_logits();
  const ClassificationLoss loss = classification_loss(logits, targets({1, 1, 0}), 0.1, 2);
  EXPECT_NEAR(loss.cross_entropy.item<double>(),
              (by_hand(logits, 0, 0, 0.1) + by_hand(logits, 1, 2, 0.1)) / 2, 1e-15);
  EXPECT_NEAR(loss.top1.item<double>(), 0.5, 1e-15);
  loss.cross_entropy.backward();
  EXPECT_EQ(logits.grad()[2].abs().sum().item<double>(), 0);
  EXPECT_GT(logits.grad()[1].abs().sum().item<double>(), 0);
}

TEST(ClassificationLoss, OfNoImagesIsNothing) {
  const at::Tensor logits = torch::zeros({0, 4}).requires_grad_();
  const ClassificationLoss loss = classification_loss(
      logits, {.labels = torch::zeros({0}, at::kLong), .counts = torch::zeros({0}, at::kLong)}, 0,
      4);
  EXPECT_EQ(loss.cross_entropy.item<double>(), 0);
  loss.cross_entropy.backward();
}

TEST(ClassificationLoss, GradientEqualsCentralDifferences) {
  const at::Tensor logits = some_logits();
  const auto value = [&](const at::Tensor& at) {
    return classification_loss(at, targets({1, 1, 1}), 0.1, 3).cross_entropy;
  };
  value(logits).backward();
  constexpr double kStep = 1e-6;
  for (std::int64_t i = 0; i < logits.numel(); ++i) {
    at::Tensor above = logits.detach().clone(), below = above.clone();
    above.view(-1)[i] += kStep;
    below.view(-1)[i] -= kStep;
    const double slope = (value(above) - value(below)).item<double>() / (2 * kStep);
    EXPECT_NEAR(logits.grad().view(-1)[i].item<double>(), slope, 1e-9) << i;
  }
}

TEST(ClassificationLoss, Of16BitIsComputedInF32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = some_logits().detach().to(type);
    const ClassificationLoss loss = classification_loss(logits, targets({1, 1, 1}), 0, 3);
    EXPECT_EQ(loss.cross_entropy.scalar_type(), at::kFloat);
  }
}

}  // namespace
}  // namespace retina
