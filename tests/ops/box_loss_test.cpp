#include "shared/ops/box_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/ops/box_coder.h"
#include "shared/ops/matcher.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

class BoxL1Loss : public testing::Test {
 protected:
  const at::Tensor anchors_ = random_boxes({.seed = 1, .count = 6});
  const at::Tensor boxes_ = random_boxes({.seed = 2, .count = 3});
  const at::Tensor matches_ = torch::tensor({0L, kBackground, 2L, kIgnored, 1L, 0L, kBackground,
                                             kBackground, kIgnored, 2L, kBackground, kBackground})
                                  .view({2, 6});
  const at::Tensor deltas_ = random_tensor({.seed = 3, .shape = {2, 6, 4}, .low = -2, .high = 2});
};

TEST_F(BoxL1Loss, SumsDistancesOfForegroundAnchorsFromTheirEncodedBoxes) {
  const at::Tensor sums = box_l1_loss(deltas_, anchors_, boxes_, matches_);
  for (std::int64_t n = 0; n < 2; ++n) {
    const at::Tensor rows = (matches_[n] >= 0).nonzero().squeeze(1);
    const at::Tensor target = encode_boxes(
        boxes_.index_select(0, matches_[n].index_select(0, rows)), anchors_.index_select(0, rows));
    const double expected = (deltas_[n].index_select(0, rows) - target).abs().sum().item<double>();
    EXPECT_NEAR(sums[n].item<double>(), expected, 1e-12);
  }
}

TEST_F(BoxL1Loss, GradientEqualsCentralDifferences) {
  const at::Tensor leaf = deltas_.clone().requires_grad_();
  box_l1_loss(leaf, anchors_, boxes_, matches_).sum().backward();
  const at::Tensor numeric = central_differences(
      [this](const at::Tensor& x) {
        return box_l1_loss(x, anchors_, boxes_, matches_).sum().item<double>();
      },
      deltas_);
  EXPECT_LE((leaf.grad() - numeric).abs().max().item<double>(), 1e-8);
}

TEST_F(BoxL1Loss, IsZeroWithoutBoxes) {
  const at::Tensor leaf = deltas_.clone().requires_grad_();
  const at::Tensor sums = box_l1_loss(leaf, anchors_, torch::zeros({0, 4}, at::kDouble),
                                      torch::full({2, 6}, kBackground, at::kLong));
  sums.sum().backward();
  EXPECT_EQ(sums.abs().sum().item<double>(), 0);
  EXPECT_EQ(leaf.grad().abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace retina
