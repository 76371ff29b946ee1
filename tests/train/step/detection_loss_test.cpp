#include "train/step/detection_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/base/error.h"
#include "shared/ops/box_loss.h"
#include "shared/ops/focal_loss.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr std::int64_t kAnchors = 40;
constexpr std::int64_t kClasses = 3;

// A batch of 4 slots: 5 boxes, none, 2 boxes, 1 box. All f64.
class DetectionLossTest : public testing::Test {
 protected:
  DetectionLossTest() {
    outputs_ = {
        .logits =
            random_tensor({.seed = 1, .shape = {4, kAnchors, kClasses}, .low = -3, .high = 3}),
        .deltas = random_tensor({.seed = 2, .shape = {4, kAnchors, 4}, .low = -1, .high = 1})};
    for (const std::int64_t count : {5, 0, 2, 1}) {
      const auto seed = static_cast<std::uint64_t>(10 + targets_.size());
      targets_.push_back(
          {.boxes = random_boxes({.seed = seed, .count = count}),
           .labels = (random_tensor({.seed = seed, .shape = {count}}) * kClasses).to(at::kLong),
           .counts = true});
    }
  }

  DetectionLoss loss(const HeadOutputs& outputs, const std::vector<BoxTargets>& targets,
                     std::int64_t images_global = 4) const {
    return detection_loss(outputs, anchors_, targets, LossOptions(), images_global);
  }
  HeadOutputs rows(std::int64_t first, std::int64_t count) const {
    return {.logits = outputs_.logits.narrow(0, first, count),
            .deltas = outputs_.deltas.narrow(0, first, count)};
  }

  const at::Tensor anchors_ = random_boxes({.seed = 3, .count = kAnchors});
  HeadOutputs outputs_;
  std::vector<BoxTargets> targets_;
};

TEST_F(DetectionLossTest, EachImageIsNormalisedByItsOwnForeground) {
  double classification = 0, box_regression = 0;
  for (std::int64_t image = 0; image < 4; ++image) {
    const BoxTargets& target = targets_[static_cast<std::size_t>(image)];
    const at::Tensor matches = match_anchors(anchors_, target.boxes, MatchOptions()).unsqueeze(0);
    const double foreground = std::max(1.0, (matches >= 0).sum().item<double>());
    const HeadOutputs own = rows(image, 1);
    classification +=
        focal_loss(own.logits, matches, target.labels, FocalOptions()).item<double>() / foreground;
    box_regression +=
        box_loss(own.deltas, anchors_, target.boxes, matches, BoxLossOptions()).item<double>() /
        foreground;
  }
  const DetectionLoss sum = loss(outputs_, targets_, 8);
  EXPECT_NEAR(sum.classification.item<double>(), classification / 8, 1e-12);
  EXPECT_NEAR(sum.box_regression.item<double>(), box_regression / 8, 1e-12);
}

TEST_F(DetectionLossTest, PartsOfABatchAddUpToTheWhole) {
  const DetectionLoss whole = loss(outputs_, targets_);
  const DetectionLoss first = loss(rows(0, 1), {targets_[0]});
  const DetectionLoss rest = loss(rows(1, 3), {targets_[1], targets_[2], targets_[3]});
  EXPECT_NEAR((first.classification + rest.classification).item<double>(),
              whole.classification.item<double>(), 1e-12);
  EXPECT_NEAR((first.box_regression + rest.box_regression).item<double>(),
              whole.box_regression.item<double>(), 1e-12);
}

TEST_F(DetectionLossTest, PadSlotsAddNeitherLossNorGradient) {
  const at::Tensor logits = outputs_.logits.clone().requires_grad_();
  const at::Tensor deltas = outputs_.deltas.clone().requires_grad_();
  std::vector<BoxTargets> padded = targets_;
  padded[0].counts = false;
  padded[3].counts = false;
  const DetectionLoss sum = loss({.logits = logits, .deltas = deltas}, padded);
  const DetectionLoss real = loss(rows(1, 2), {targets_[1], targets_[2]});
  EXPECT_DOUBLE_EQ(sum.classification.item<double>(), real.classification.item<double>());
  EXPECT_DOUBLE_EQ(sum.box_regression.item<double>(), real.box_regression.item<double>());
  (sum.classification + sum.box_regression).backward();
  for (const std::int64_t slot : {0, 3}) {
    EXPECT_EQ(logits.grad()[slot].abs().sum().item<double>(), 0) << slot;
    EXPECT_EQ(deltas.grad()[slot].abs().sum().item<double>(), 0) << slot;
  }
  EXPECT_GT(logits.grad()[2].abs().sum().item<double>(), 0);
}

TEST_F(DetectionLossTest, ABatchOfPadSlotsIsZeroAndStillDifferentiable) {
  const at::Tensor logits = outputs_.logits.clone().requires_grad_();
  std::vector<BoxTargets> padded = targets_;
  for (BoxTargets& target : padded) target.counts = false;
  const DetectionLoss sum = loss({.logits = logits, .deltas = outputs_.deltas}, padded);
  EXPECT_EQ(sum.classification.item<double>(), 0);
  EXPECT_EQ(sum.box_regression.item<double>(), 0);
  sum.classification.backward();
  EXPECT_EQ(logits.grad().abs().sum().item<double>(), 0);
}

TEST_F(DetectionLossTest, AnImageWithoutBoxesTeachesBackground) {
  const at::Tensor logits = outputs_.logits.clone().requires_grad_();
  const DetectionLoss sum = loss({.logits = logits, .deltas = outputs_.deltas}, targets_);
  sum.classification.backward();
  EXPECT_GT(logits.grad()[1].min().item<double>(), 0);  // every score of image 1 is pushed down
}

TEST_F(DetectionLossTest, TheChosenBoxLossIsUsed) {
  const LossOptions giou = {.box = {.kind = BoxLossKind::kGiou}};
  const DetectionLoss sum = detection_loss(outputs_, anchors_, targets_, giou, 4);
  double expected = 0;
  for (std::int64_t image = 0; image < 4; ++image) {
    const BoxTargets& target = targets_[static_cast<std::size_t>(image)];
    const at::Tensor matches = match_anchors(anchors_, target.boxes, MatchOptions()).unsqueeze(0);
    expected +=
        box_loss(outputs_.deltas.narrow(0, image, 1), anchors_, target.boxes, matches, giou.box)
            .item<double>() /
        std::max(1.0, (matches >= 0).sum().item<double>());
  }
  EXPECT_NEAR(sum.box_regression.item<double>(), expected / 4, 1e-12);
  EXPECT_EQ(sum.classification.item<double>(),
            loss(outputs_, targets_).classification.item<double>());
}

TEST(LossOptions, NamesTheNumberThatIsOutOfRange) {
  EXPECT_NO_THROW(LossOptions().validate());
  for (const auto& [options, name] : std::vector<std::pair<LossOptions, std::string>>{
           {{.focal_alpha = 1.5}, "focal alpha"},
           {{.focal_gamma = -1}, "focal gamma"},
           {{.box = {.smooth_l1_beta = 0}}, "smooth L1 beta"},
           {{.box = {.target_std = 0}}, "target std"},
           {{.match = {.foreground_iou = 2}}, "foreground IoU"},
           {{.match = {.background_iou = 0.6}}, "background IoU"}}) {
    try {
      options.validate();
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST_F(DetectionLossTest, GradientEqualsCentralDifferences) {
  const at::Tensor deltas = outputs_.deltas.clone().requires_grad_();
  const at::Tensor logits = outputs_.logits.clone().requires_grad_();
  const DetectionLoss sum = loss({.logits = logits, .deltas = deltas}, targets_);
  (sum.classification + sum.box_regression).backward();
  const at::Tensor by_delta = central_differences(
      [this](const at::Tensor& x) {
        return loss({.logits = outputs_.logits, .deltas = x}, targets_)
            .box_regression.item<double>();
      },
      outputs_.deltas);
  const at::Tensor by_logit = central_differences(
      [this](const at::Tensor& x) {
        return loss({.logits = x, .deltas = outputs_.deltas}, targets_)
            .classification.item<double>();
      },
      outputs_.logits);
  EXPECT_LE((deltas.grad() - by_delta).abs().max().item<double>(), 1e-8);
  EXPECT_LE((logits.grad() - by_logit).abs().max().item<double>(), 1e-8);
}

}  // namespace
}  // namespace retina
