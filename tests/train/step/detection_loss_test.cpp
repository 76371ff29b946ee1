#include "train/step/detection_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/base/error.h"
#include "shared/ops/head_losses.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr std::int64_t kAnchors = 40;
constexpr std::int64_t kClasses = 3;

// A batch of 4 slots: 5 boxes, none, 2 boxes, 1 box. All f64.
class DetectionLossTest : public testing::Test {
 protected:
  DetectionLossTest() {
    for (const std::int64_t count : {5, 0, 2, 1}) {
      const auto seed = static_cast<std::uint64_t>(10 + targets_.size());
      targets_.push_back(
          {.boxes = random_boxes({.seed = seed, .count = count}),
           .labels = (random_tensor({.seed = seed, .shape = {count}}) * kClasses).to(at::kLong),
           .counts = true});
    }
  }

  // Of outputs on two levels.
  DetectionLoss loss(const at::Tensor& logits, const at::Tensor& deltas,
                     const std::vector<BoxTargets>& targets, std::int64_t images_global = 4,
                     const LossOptions& options = {}) const {
    const auto levels = [](const at::Tensor& all) {
      return std::vector{all.slice(1, 0, 30), all.slice(1, 30)};
    };
    return detection_loss({.logits = levels(logits), .deltas = levels(deltas)}, anchors_,
                          batch_of(targets), options, images_global);
  }
  DetectionLoss loss_of_rows(std::int64_t first, std::int64_t count) const {
    const auto begin = targets_.begin() + first;
    return loss(logits_.narrow(0, first, count), deltas_.narrow(0, first, count),
                {begin, begin + count});
  }

  const at::Tensor anchors_ = random_boxes({.seed = 3, .count = kAnchors});
  const at::Tensor logits_ =
      random_tensor({.seed = 1, .shape = {4, kAnchors, kClasses}, .low = -3, .high = 3});
  const at::Tensor deltas_ =
      random_tensor({.seed = 2, .shape = {4, kAnchors, 4}, .low = -1, .high = 1});
  std::vector<BoxTargets> targets_;
};

TEST_F(DetectionLossTest, PartsOfABatchAddUpToTheWhole) {
  const DetectionLoss whole = loss(logits_, deltas_, targets_);
  const DetectionLoss first = loss_of_rows(0, 1), rest = loss_of_rows(1, 3);
  EXPECT_NEAR((first.classification + rest.classification).item<double>(),
              whole.classification.item<double>(), 1e-12);
  EXPECT_NEAR((first.box_regression + rest.box_regression).item<double>(),
              whole.box_regression.item<double>(), 1e-12);
}

TEST_F(DetectionLossTest, PadSlotsAddNeitherLossNorGradient) {
  const at::Tensor logits = logits_.clone().requires_grad_();
  const at::Tensor deltas = deltas_.clone().requires_grad_();
  std::vector<BoxTargets> padded = targets_;
  padded[0].counts = false;
  padded[3].counts = false;
  const DetectionLoss sum = loss(logits, deltas, padded);
  const DetectionLoss real = loss_of_rows(1, 2);
  EXPECT_DOUBLE_EQ(sum.classification.item<double>(), real.classification.item<double>());
  EXPECT_DOUBLE_EQ(sum.box_regression.item<double>(), real.box_regression.item<double>());
  sum.backward();
  for (const std::int64_t slot : {0, 3}) {
    EXPECT_EQ(logits.grad()[slot].abs().sum().item<double>(), 0) << slot;
    EXPECT_EQ(deltas.grad()[slot].abs().sum().item<double>(), 0) << slot;
  }
  EXPECT_GT(logits.grad()[2].abs().sum().item<double>(), 0);
}

TEST_F(DetectionLossTest, ABatchOfPadSlotsIsZeroAndStillDifferentiable) {
  const at::Tensor logits = logits_.clone().requires_grad_();
  std::vector<BoxTargets> padded = targets_;
  for (BoxTargets& target : padded) target.counts = false;
  const DetectionLoss sum = loss(logits, deltas_, padded);
  EXPECT_EQ(sum.classification.item<double>(), 0);
  EXPECT_EQ(sum.box_regression.item<double>(), 0);
  sum.backward();
  EXPECT_EQ(logits.grad().abs().sum().item<double>(), 0);
}

TEST_F(DetectionLossTest, AnImageWithoutBoxesTeachesBackground) {
  const at::Tensor logits = logits_.clone().requires_grad_();
  const DetectionLoss sum = loss(logits, deltas_, targets_);
  sum.backward();
  EXPECT_GT(logits.grad()[1].min().item<double>(), 0);  // every score of image 1 is pushed down
}

TEST_F(DetectionLossTest, TheBoxLossHasItsWeight) {
  const LossOptions giou = {.box = {.kind = BoxLossKind::kGiou}};
  LossOptions heavy = giou;
  heavy.box_weight = 3;
  const at::Tensor deltas = deltas_.clone().requires_grad_(),
                   heavier = deltas_.clone().requires_grad_();
  const DetectionLoss plain = loss(logits_, deltas, targets_, 4, giou),
                      weighed = loss(logits_, heavier, targets_, 4, heavy);
  plain.backward();
  weighed.backward();
  EXPECT_NEAR(weighed.box_regression.item<double>(), 3 * plain.box_regression.item<double>(),
              1e-12);
  EXPECT_EQ(weighed.classification.item<double>(), plain.classification.item<double>());
  EXPECT_TRUE(heavier.grad().allclose(3 * deltas.grad(), 1e-12, 1e-12));
}

TEST(BatchTargets, HaveThePartialBoxesOfEachImage) {
  Batch batch{.padded = {64, 32}};
  batch.samples.resize(3);
  batch.samples[0].boxes = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  batch.samples[0].labels = {2, 0};
  const BatchTargets without = batch_targets(batch, c10::kCPU);
  EXPECT_FALSE(without.partial_boxes.defined() || without.partial_offsets.defined());
  batch.samples[0].partial_boxes = {{9, 10, 11, 12}};
  batch.samples[2].partial_boxes = {{1, 1, 2, 2}, {3, 3, 4, 4}};
  const BatchTargets with = batch_targets(batch, c10::kCPU);
  EXPECT_TRUE(with.boxes.equal(without.boxes) && with.labels.equal(without.labels));
  EXPECT_TRUE(with.offsets.equal(without.offsets) && with.counts.equal(without.counts));
  EXPECT_TRUE(with.boxes.flatten().equal(torch::tensor({1.F, 2.F, 3.F, 4.F, 5.F, 6.F, 7.F, 8.F})));
  EXPECT_TRUE(with.labels.equal(torch::tensor({2L, 0L})));
  EXPECT_TRUE(with.offsets.equal(torch::tensor({0L, 2L, 2L, 2L})));
  EXPECT_TRUE(with.counts.equal(torch::tensor({1L, 1L, 1L})));
  EXPECT_TRUE(with.partial_offsets.equal(torch::tensor({0L, 1L, 1L, 3L})));
  EXPECT_TRUE(with.partial_boxes.flatten().equal(
      torch::tensor({9.F, 10.F, 11.F, 12.F, 1.F, 1.F, 2.F, 2.F, 3.F, 3.F, 4.F, 4.F})));
}

// Images with boxes and partial ones, without one of them, and a pad slot.
class PartialBoxesInTheLoss : public DetectionLossTest {
 protected:
  static constexpr PixelSize kPadded = {.height = 64, .width = 96};

  PartialBoxesInTheLoss() {
    const std::vector<AnchorBox> all = grid_anchors({.sizes = {16, 32, 64, 128, 256}}, kPadded);
    count_ = static_cast<std::int64_t>(all.size());
    grid_ = torch::from_blob(const_cast<AnchorBox*>(all.data()), {count_, 4}).to(at::kDouble);
    targets_.push_back(targets_[0]);
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      targets_[i].boxes = targets_[i].boxes * 0.4;
      if (i == 2) continue;
      targets_[i].partial_boxes =
          random_boxes({.seed = 70 + i, .count = 2, .extent = 60, .side = 40});
    }
    targets_[4].counts = false;
    images_ = static_cast<std::int64_t>(targets_.size());
    scores_ =
        random_tensor({.seed = 4, .shape = {images_, count_, kClasses}, .low = -3, .high = 3});
    shifts_ = random_tensor({.seed = 5, .shape = {images_, count_, 4}, .low = -1, .high = 1});
  }

  // The rule image by image, with the whole matrix of overlaps.
  at::Tensor expected_matches(const LossOptions& options) const {
    const auto grids = level_grids(kPadded);
    at::Tensor matches = torch::full({images_, count_}, kIgnored, at::kLong);
    std::int64_t first_box = 0;
    for (std::int64_t n = 0; n < images_; ++n) {
      const BoxTargets& target = targets_[static_cast<std::size_t>(n)];
      const auto assign = [&](const at::Tensor& boxes) {
        if (options.assigner == Assigner::kIou) return match_one(grid_, boxes, options.match);
        return atss_match_anchors(grid_, {grids.begin(), grids.end()}, boxes,
                                  torch::tensor({std::int64_t{0}, boxes.size(0)}))[0];
      };
      const at::Tensor real = assign(target.boxes);
      at::Tensor own = torch::where(real >= 0, real + first_box, real);
      first_box += target.boxes.size(0);
      if (!target.counts) continue;
      if (target.partial_boxes.defined()) {
        const at::Tensor box = target.partial_boxes.unsqueeze(1), anchor = grid_.unsqueeze(0);
        const auto side = [&](std::int64_t i) {
          return (torch::min(box.select(2, 2 + i), anchor.select(2, 2 + i)) -
                  torch::max(box.select(2, i), anchor.select(2, i)))
              .clamp_min(0);
        };
        const at::Tensor area =
            (grid_.select(1, 2) - grid_.select(1, 0)) * (grid_.select(1, 3) - grid_.select(1, 1));
        const at::Tensor inside = (side(0) * side(1) / area).ge(0.5).any(0);
        const at::Tensor claimed = assign(target.partial_boxes).ne(kBackground);
        own = own.masked_fill(own.eq(kBackground) & (inside | claimed), kIgnored);
      }
      matches[n].copy_(own);
    }
    return matches;
  }

  DetectionLoss loss_of(const at::Tensor& scores, const at::Tensor& shifts,
                        const LossOptions& options) const {
    BatchTargets batch = batch_of(targets_);
    batch.padded = kPadded;
    return detection_loss({.logits = {scores}, .deltas = {shifts}}, grid_.to(scores.scalar_type()),
                          batch, options, 4);
  }

  std::int64_t count_ = 0, images_ = 0;
  at::Tensor grid_, scores_, shifts_;
};

const std::vector<ClassLossKind> kClassLosses = {
    ClassLossKind::kFocal, ClassLossKind::kQualityFocal, ClassLossKind::kVarifocal};
const std::vector<BoxLossKind> kBoxLosses = {BoxLossKind::kL1, BoxLossKind::kSmoothL1,
                                             BoxLossKind::kGiou, BoxLossKind::kCiou};

// Of every assigner, class loss and box loss, in f64 and by the lanes of f32: what the losses give
// for the matches of the rule, and exactly 0 where these ignore.
TEST_F(PartialBoxesInTheLoss, IgnoreTheirAnchorsAndChangeNothingElse) {
  for (const Assigner assigner : {Assigner::kIou, Assigner::kAtss}) {
    const at::Tensor matches = expected_matches({.assigner = assigner});
    const at::Tensor ignored = matches.eq(kIgnored), foreground = matches.ge(0);
    EXPECT_GT(ignored.slice(0, 0, 4).sum().item<std::int64_t>(), 50);
    for (const auto type : {at::kDouble, at::kFloat}) {
      const at::Tensor scores = scores_.to(type), shifts = shifts_.to(type);
      const at::Tensor anchors = grid_.to(type), boxes = batch_of(targets_).boxes.to(type),
                       labels = batch_of(targets_).labels;
      const at::Tensor weights =
          torch::tensor({1, 1, 1, 1, 0}).to(type) * 0.25 / foreground.sum(1).clamp_min(1);
      for (std::size_t i = 0; i < 12; ++i) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(assigner) << " " << type << " " << i);
        const LossOptions options = {.class_loss = kClassLosses[i % 3],
                                     .box = {.kind = kBoxLosses[i / 3]},
                                     .assigner = assigner};
        const std::vector<at::Tensor> deltas = {shifts};
        const LossSums of_classes =
                           options.class_loss == ClassLossKind::kFocal
                               ? focal_loss({scores}, matches, labels, weights, FocalOptions())
                               : quality_loss(
                                     {scores},
                                     {.deltas = deltas, .anchors = anchors, .boxes = boxes},
                                     matches, labels, weights, options.class_loss),
                       of_boxes = box_loss(deltas, anchors, boxes, matches, weights, options.box);
        const DetectionLoss found =
            loss_of(scores.clone().requires_grad_(), shifts.clone().requires_grad_(), options);
        EXPECT_TRUE(found.classification.equal((of_classes.sums * weights).sum()));
        EXPECT_TRUE(found.box_regression.equal((of_boxes.sums * weights).sum()));
        ASSERT_EQ(found.gradients.size(), 2U);
        EXPECT_TRUE(found.gradients[0].equal(of_classes.gradients[0]));
        EXPECT_TRUE(found.gradients[1].equal(of_boxes.gradients[0]));
        const at::Tensor size = found.gradients[0].abs().sum(2);
        EXPECT_EQ(size.masked_select(ignored).sum().item<double>(), 0);
        EXPECT_GT(size.masked_select(~ignored).min().item<double>(), 0);
        EXPECT_EQ(found.gradients[1].abs().sum(2).masked_select(~foreground).sum().item<double>(),
                  0);
      }
    }
  }
}

// Of anchors that are ignored, and of others.
TEST_F(PartialBoxesInTheLoss, GradientEqualsCentralDifferences) {
  const at::Tensor ignored = expected_matches({})[0].eq(kIgnored);
  const at::Tensor some = torch::cat({ignored.nonzero().view(-1).slice(0, 0, 20),
                                      ignored.logical_not().nonzero().view(-1).slice(0, 0, 20)});
  ASSERT_EQ(some.size(0), 40);
  const at::Tensor scores = scores_.clone().requires_grad_();
  loss_of(scores, shifts_, {}).backward();
  const at::Tensor by_score = central_differences(
      [&](const at::Tensor& x) {
        at::Tensor all = scores_.clone();
        all[0].index_copy_(0, some, x);
        return loss_of(all, shifts_, {}).classification.item<double>();
      },
      scores_[0].index_select(0, some), 1e-4);
  EXPECT_LE((scores.grad()[0].index_select(0, some) - by_score).abs().max().item<double>(), 1e-8);
  EXPECT_EQ(by_score.slice(0, 0, 20).abs().max().item<double>(), 0);
  EXPECT_GT(by_score.slice(0, 20).abs().min().item<double>(), 0);
}

// The target of a quality loss depends on the boxes, and its gradient does not go there.
TEST_F(DetectionLossTest, GradientEqualsCentralDifferences) {
  for (const ClassLossKind kind : {ClassLossKind::kFocal, ClassLossKind::kQualityFocal}) {
    const LossOptions options = {.class_loss = kind};
    const at::Tensor deltas = deltas_.clone().requires_grad_();
    const at::Tensor logits = logits_.clone().requires_grad_();
    loss(logits, deltas, targets_, 4, options).backward();
    const at::Tensor by_delta = central_differences(
        [&](const at::Tensor& x) {
          return loss(logits_, x, targets_, 4, options).box_regression.item<double>();
        },
        deltas_);
    const at::Tensor by_logit = central_differences(
        [&](const at::Tensor& x) {
          return loss(x, deltas_, targets_, 4, options).classification.item<double>();
        },
        logits_);
    EXPECT_LE((deltas.grad() - by_delta).abs().max().item<double>(), 1e-8);
    EXPECT_LE((logits.grad() - by_logit).abs().max().item<double>(), 1e-8);
  }
}

}  // namespace
}  // namespace retina
