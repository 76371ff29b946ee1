// What a step asks of a device, counted on the CPU: the same calls in the same order as on a GPU.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "shared/numeric/random.h"
#include "tests/support/operators/operator_log.h"
#include "train/step/replica.h"

namespace retina {
namespace {

constexpr int kSidePx = 128;
constexpr std::int64_t kImages = 2;
constexpr std::int64_t kAnchors = 9 * (16 * 16 + 8 * 8 + 4 * 4 + 2 * 2 + 1);

// As the loader gives it to a GPU: stored images, boxes of one image of two.
Batch stored_batch(int box_count) {
  const RandomStream random{.seed = 5, .use = RandomUse::kTest};
  Batch batch{.padded = {kSidePx, kSidePx}};
  constexpr std::size_t kBytes = std::size_t{3} * kSidePx * kSidePx;
  batch.stored = std::make_shared<std::uint8_t[]>(kImages * kBytes);
  for (std::size_t i = 0; i < kImages * kBytes; ++i) {
    batch.stored[static_cast<std::ptrdiff_t>(i)] = static_cast<std::uint8_t>(random.below(i, 256));
  }
  for (std::size_t image = 0; image < kImages; ++image) {
    batch.offsets.push_back(image * kBytes);
    batch.samples.push_back({.slot = {},
                             .original_width_px = kSidePx,
                             .original_height_px = kSidePx,
                             .width_px = kSidePx,
                             .height_px = kSidePx});
  }
  for (int i = 0; i < box_count; ++i) {
    const auto draw = [&](int which) {
      return static_cast<float>(random.unit(static_cast<std::uint64_t>(1000000 + 4 * i + which)));
    };
    const float x = 90 * draw(0), y = 90 * draw(1);
    batch.samples[0].boxes.push_back({x, y, x + 4 + 30 * draw(2), y + 4 + 30 * draw(3)});
    batch.samples[0].labels.push_back(i % 2);
  }
  batch.part.real_image_count = static_cast<int>(kImages);
  return batch;
}

struct Variant {
  Norm norm;
  HeadNorm head_norm;
  double clip_norm;
};

ReplicaOptions options_of(const Variant& variant) {
  ReplicaOptions options;
  options.task.model.backbone = "resnet18";
  options.task.model.class_count = 2;
  options.task.model.norm = variant.norm;
  options.task.model.head_norm = variant.head_norm;
  options.clip_norm = variant.clip_norm;
  options.ema = 0.9;
  return options;
}

void step(Replica& replica, const Batch& batch, std::int64_t number) {
  replica.backward(replica.loss(replica.forward(batch), batch), batch.part.is_last_micro_batch);
  replica.all_reduce();
  replica.update(1e-3, number);
}

void expect_no_wait(const OperatorLog& log) {
  for (const char* waits : {"aten::_local_scalar_dense", "aten::item", "aten::nonzero",
                            "aten::is_nonzero", "aten::equal", "aten::masked_select"}) {
    EXPECT_EQ(log.of(waits).count, 0) << waits;
  }
}

class StepOperators : public testing::TestWithParam<Variant> {};

TEST_P(StepOperators, NothingWaitsForTheDeviceAndNoActivationIsCopied) {
  const auto alone = make_self_communicator();
  Replica replica(options_of(GetParam()), *alone);
  Batch batch = stored_batch(3);
  batch.samples[1].partial_boxes = {{10, 10, 60, 60}};
  step(replica, batch, 1);
  replica.take_metrics();
  const OperatorLog log;
  step(replica, batch, 2);
  EXPECT_GT(log.of("aten::convolution_backward").count, 40) << "the log sees backward";
  expect_no_wait(log);
  // As many values as the smaller head has: anchors of all levels times two classes.
  constexpr std::int64_t kSmallest = kImages * kAnchors * 2;
  for (const char* copies : {"aten::_to_copy", "aten::cat", "aten::clone", "aten::stack"}) {
    EXPECT_LT(log.of(copies).largest, kSmallest) << copies;
  }
}

TEST_P(StepOperators, OfAStepDoNotDependOnItsBoxes) {
  const auto alone = make_self_communicator();
  Replica replica(options_of(GetParam()), *alone);
  step(replica, stored_batch(1), 1);
  const auto counts_of = [&](const Batch& batch, std::int64_t number) {
    const OperatorLog log;
    step(replica, batch, number);
    std::map<std::string, std::int64_t> counts;
    for (const auto& [name, calls] : log.all()) counts[name] = calls.count;
    counts.erase("aten::fill_");  // how zeros are written depends on their number, on CPUs
    counts.erase("aten::zero_");
    return counts;
  };
  const auto few = counts_of(stored_batch(1), 2);
  EXPECT_EQ(counts_of(stored_batch(0), 3), few);
  EXPECT_EQ(counts_of(stored_batch(400), 4), few);
}

// As a captured graph does it: the same launches again on the same memory.
TEST_P(StepOperators, ReplayedOnTheSameBuffersGiveTheSameBits) {
  const auto alone = make_self_communicator();
  Replica replica(options_of(GetParam()), *alone);
  const Batch batch = stored_batch(3);
  Checkpoint start;
  replica.snapshot(start);
  const auto replayed = [&] {
    replica.restore(start, 0, "the start");
    step(replica, batch, 1);
    const StepSums metrics = replica.take_metrics();
    return std::tuple(replica.hash(), metrics.of_task[0], metrics.of_task[1],
                      metrics.gradient_norm);
  };
  const auto first = replayed();
  EXPECT_EQ(replayed(), first);
  EXPECT_GT(std::get<1>(first), 0);
  EXPECT_GT(std::get<2>(first), 0);
}

INSTANTIATE_TEST_SUITE_P(, StepOperators,
                         testing::Values(Variant{Norm::kFrozen, HeadNorm::kNone, 0},
                                         Variant{Norm::kBatch, HeadNorm::kGroup, 0.1}),
                         [](const auto& instance) {
                           return instance.param.norm == Norm::kFrozen ? "Frozen" : "Trained";
                         });

// --- In half, with a loss scale ------------------------------------------------------------------

ReplicaOptions fp16_options() {
  ReplicaOptions options = options_of({Norm::kBatch, HeadNorm::kGroup, 0});
  options.task.precision = Precision::kFp16;
  options.task.model.fpn_channels = 64;  // CPUs take long for convolutions in half
  options.task.model.head_convs = 1;
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.ema = 0;
  return options;
}

// `state` with another loss scale.
Checkpoint with_scale(const Checkpoint& state, double scale) {
  Checkpoint changed = state;
  for (NamedTensor& item : changed.optimizer) {
    if (item.name == "grad_scaler.scale") item.tensor = torch::tensor(static_cast<float>(scale));
  }
  return changed;
}

// What an update changes: weights and the optimizer's state, not running statistics.
NamedTensors trained_state(Replica& replica) {
  Checkpoint checkpoint;
  replica.snapshot(checkpoint);
  NamedTensors state;
  for (const NamedTensors* part : {&checkpoint.model, &checkpoint.optimizer}) {
    for (const NamedTensor& item : *part) {
      const bool counts = item.name.find(".running_") != std::string::npos ||
                          item.name.ends_with("num_batches_tracked") ||
                          item.name.find("grad_scaler.") != std::string::npos;
      if (!counts) state.push_back(item);
    }
  }
  return state;
}

void expect_equal(const NamedTensors& found, const NamedTensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].tensor.equal(expected[i].tensor)) << found[i].name;
  }
}

TEST(ReplicaInFp16, WaitsForNothing) {
  const auto alone = make_self_communicator();
  ReplicaOptions options = fp16_options();
  options.optimizer.kind = OptimizerKind::kSgd;  // on CPUs AdamW reads its counts
  Replica replica(options, *alone);
  const Batch batch = stored_batch(3);
  step(replica, batch, 1);
  replica.take_metrics();
  const OperatorLog log;
  step(replica, batch, 2);
  expect_no_wait(log);
}

TEST(ReplicaInFp16, SkipsAStepThatOverflowsAsIfItHadNotBeen) {
  const auto alone = make_self_communicator();
  Replica replica(fp16_options(), *alone);
  const Batch batch = stored_batch(3), other = stored_batch(5);
  Checkpoint start;
  replica.snapshot(start);
  // An update first, so that AdamW has a state and a count.
  const auto begin = [&](double scale) {
    replica.restore(with_scale(start, 1024), 0, "the start");
    step(replica, other, 1);
    EXPECT_TRUE(std::isfinite(replica.take_metrics().gradient_norm));
    Checkpoint first;
    replica.snapshot(first);
    replica.restore(with_scale(first, scale), 1, "the first step");
  };
  begin(0x1p60);
  const NamedTensors before = trained_state(replica);
  step(replica, batch, 2);
  const StepSums skipped = replica.take_metrics();
  EXPECT_FALSE(std::isfinite(skipped.gradient_norm));
  EXPECT_TRUE(std::isfinite(skipped.of_task[0] + skipped.of_task[1]));
  EXPECT_EQ(skipped.loss_scale, 0x1p60);
  expect_equal(trained_state(replica), before);
  Checkpoint after;
  replica.snapshot(after);
  for (const NamedTensor& item : after.optimizer) {
    if (item.name == "grad_scaler.scale") {
      EXPECT_EQ(item.tensor.item<double>(), 0x1p59);
    } else if (item.name == "grad_scaler.skipped") {
      EXPECT_EQ(item.tensor.item<std::int64_t>(), 1);
    }
  }
  // AdamW's second update is the third step: so count a run that goes on and one that is continued.
  replica.restore(with_scale(after, 1024), 2, "after the skipped step");
  step(replica, batch, 3);
  const double norm = replica.take_metrics().gradient_norm;
  const NamedTensors continued = trained_state(replica);
  begin(1024);
  step(replica, batch, 2);
  EXPECT_EQ(replica.take_metrics().gradient_norm, norm);
  expect_equal(trained_state(replica), continued);
}

// The norm, and with it clipping and what travels, is that of the gradient itself.
TEST(ReplicaInFp16, DividesTheGradientByTheScaleBeforeItIsClipped) {
  const auto alone = make_self_communicator();
  const Batch batch = stored_batch(3);
  const auto norm_of = [&](Precision precision, double scale) {
    ReplicaOptions options = fp16_options();
    options.task.precision = precision;
    options.clip_norm = 0.01;
    Replica replica(options, *alone);
    Checkpoint start;
    replica.snapshot(start);
    replica.restore(with_scale(start, scale), 0, "the start");
    replica.backward(replica.loss(replica.forward(batch), batch), false);  // two micro-batches
    step(replica, batch, 1);
    return replica.take_metrics().gradient_norm;
  };
  const double exact = norm_of(Precision::kFp32, 1);
  EXPECT_NEAR(norm_of(Precision::kFp16, 4096), exact, 0.02 * exact);
}

// A loss that is not finite changes nothing, without anybody having looked.
TEST(ReplicaUpdate, OfAStepThatIsNotFiniteLeavesTheWeights) {
  const auto alone = make_self_communicator();
  ReplicaOptions options = options_of({Norm::kFrozen, HeadNorm::kNone, 0.1});
  options.ema = 0;
  Replica replica(options, *alone);
  const Batch batch = stored_batch(3);
  step(replica, batch, 1);
  EXPECT_TRUE(std::isfinite(replica.take_metrics().gradient_norm));
  const at::NoGradGuard no_grad;
  at::Tensor bias;
  for (const auto& [name, tensor] : state_of(replica.network())) {
    if (name == "head.regression_head.bbox_reg.bias") bias = tensor;
  }
  const at::Tensor whole = bias.clone();
  bias.fill_(std::numeric_limits<float>::quiet_NaN());
  const std::uint64_t before = replica.hash();
  step(replica, batch, 2);
  const StepSums metrics = replica.take_metrics();
  EXPECT_TRUE(std::isfinite(metrics.of_task[0]));
  EXPECT_TRUE(std::isnan(metrics.of_task[1]));
  EXPECT_EQ(replica.hash(), before);
  bias.copy_(whole);
  const std::uint64_t mended = replica.hash();
  step(replica, batch, 3);
  EXPECT_NE(replica.hash(), mended);
}

}  // namespace
}  // namespace retina
