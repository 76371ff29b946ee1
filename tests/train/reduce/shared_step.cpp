#include "tests/train/reduce/shared_step.h"

#include <ATen/ops/cat.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "shared/base/error.h"
#include "shared/model/postprocess.h"
#include "shared/numeric/random.h"
#include "train/plan/epoch_plan.h"
#include "train/step/replica.h"

namespace retina {
namespace {

constexpr std::uint64_t kSeed = 20261121;
constexpr int kSidePx = 64;
constexpr std::int64_t kBoxCounts[kStepImages] = {40, 25, 0, 1, 2, 1, 1, 3};

Sample sample_of(std::int64_t slot) {
  const RandomStream corners = {.seed = kSeed, .use = RandomUse::kTest, .stream = 2};
  Sample sample;
  sample.slot.counts = slot < kStepRealImages;
  for (std::int64_t box = 0; box < kBoxCounts[slot]; ++box) {
    const auto place = static_cast<std::uint64_t>(slot * 1000 + box * 5);
    const auto draw = [&](std::uint64_t i, double low, double high) {
      return static_cast<float>(low + (high - low) * corners.unit(place + i));
    };
    const float x = draw(0, 0, 40), y = draw(1, 0, 40);
    sample.boxes.push_back({x, y, x + draw(2, 4, 24), y + draw(3, 4, 24)});
    sample.labels.push_back(static_cast<std::int64_t>(corners.below(place + 4, 3)));
  }
  return sample;
}

// Adds up differences of tensors.
class Comparison {
 public:
  void add(const at::Tensor& ours, const at::Tensor& theirs) {
    const double norm = theirs.norm().item<double>();
    const double difference = (ours - theirs).norm().item<double>();
    squares_ += norm * norm;
    difference_squares_ += difference * difference;
    worst_ = std::max(worst_, norm > 0 ? difference / norm : difference);
  }
  Difference result() const {
    return {.of_norm = std::sqrt(difference_squares_ / squares_), .of_tensor = worst_};
  }

 private:
  double squares_ = 0, difference_squares_ = 0, worst_ = 0;
};

}  // namespace

ModelConfig step_model(Norm norm) {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = 3;
  config.norm = norm;
  config.head_norm = HeadNorm::kNone;
  config.p6_from_c5 = false;
  config.anchor_sizes = {8, 16, 32, 64, 128};
  return config;
}

void set_step_weights(Network& model) {
  // Drawing them costs more than the step.
  static std::map<Norm, NamedTensors> drawn;
  NamedTensors& state = drawn[model.config().norm];
  if (state.empty()) {
    const torch::NoGradGuard no_gradient;
    initialise(model, kSeed);
    for (auto& [name, tensor] : state_of(model)) {
      if (tensor.dim() == 1 && name.ends_with(".weight")) tensor.fill_(0.5);
      if (name.find("head.") == 0 && tensor.dim() == 4) tensor.mul_(3);
      state.emplace_back(name, tensor.detach().clone());
    }
  }
  load_state(model, state, "the step's weights");
}

Batch step_batch(const std::vector<std::int64_t>& slots) {
  const RandomStream pixels = {.seed = kSeed, .use = RandomUse::kTest, .stream = 1};
  constexpr std::int64_t kPixels = 3 * kSidePx * kSidePx;
  Batch batch;
  batch.padded.height = batch.padded.width = kSidePx;
  batch.images = std::make_shared<float[]>(slots.size() * static_cast<std::size_t>(kPixels));
  std::size_t written = 0;
  for (const std::int64_t slot : slots) {
    for (std::int64_t i = slot * kPixels; i < (slot + 1) * kPixels; ++i) {
      const double unit = pixels.unit(static_cast<std::uint64_t>(i));
      batch.images[static_cast<std::ptrdiff_t>(written++)] = static_cast<float>(4 * unit - 2);
    }
    batch.samples.push_back(sample_of(slot));
  }
  return batch;
}

MicroBatches step_micro_batches(int rank, int ranks, int micro_batch) {
  GlobalStep step;
  for (std::size_t image = 0; image < kStepImages; ++image) step.slots.push_back({.record = image});
  MicroBatches micro_batches;
  for (const BatchRequest& request : rank_micro_batches(step, rank, ranks, micro_batch)) {
    micro_batches.emplace_back();
    for (const Slot& slot : request.slots) {
      micro_batches.back().push_back(static_cast<std::int64_t>(slot.record));
    }
  }
  return micro_batches;
}

MicroBatches united_micro_batches(int ranks, int micro_batch) {
  MicroBatches united = step_micro_batches(0, ranks, micro_batch);
  for (int rank = 1; rank < ranks; ++rank) {
    const MicroBatches micro_batches = step_micro_batches(rank, ranks, micro_batch);
    for (std::size_t i = 0; i < micro_batches.size(); ++i) {
      united[i].insert(united[i].end(), micro_batches[i].begin(), micro_batches[i].end());
    }
  }
  return united;
}

StepResult result_of(const Network& model) {
  StepResult result;
  for (const auto& [name, tensor] : state_of(model)) {
    if (tensor.requires_grad()) {
      result.gradients.push_back({name, tensor.grad().to(at::kDouble).clone()});
    }
    if (name.ends_with(".running_mean") || name.ends_with(".running_var")) {
      result.statistics.push_back({name, tensor.to(at::kDouble).clone()});
    }
  }
  return result;
}

RetinaNet step_model_f64(Norm norm) {
  RetinaNet model(step_model(norm));
  set_step_weights(model);
  model.to(at::kDouble);
  return model;
}

NamedTensors trainable(const RetinaNet& model) {
  NamedTensors parameters;
  for (const auto& [name, tensor] : state_of(model)) {
    if (tensor.requires_grad()) parameters.push_back({name, tensor});
  }
  return parameters;
}

std::map<std::int64_t, at::Tensor> run_micro_batches_f64(
    RetinaNet& model, const MicroBatches& micro_batches,
    const std::function<void(const DetectionLoss& loss, bool last)>& before_backward) {
  const at::Tensor anchors =
      anchors_for(model.config(), {.height = kSidePx, .width = kSidePx}, at::kDouble);
  std::map<std::int64_t, at::Tensor> outputs;
  for (const auto& slots : micro_batches) {
    const Batch batch = step_batch(slots);
    const auto count = static_cast<std::int64_t>(slots.size());
    const at::Tensor images =
        at::from_blob(batch.images.get(), {count, 3, kSidePx, kSidePx}, at::kFloat).to(at::kDouble);
    const HeadOutputs heads = model.forward(images);
    for (std::int64_t i = 0; i < count; ++i) {
      outputs[slots[static_cast<std::size_t>(i)]] =
          at::cat({all_levels(heads.logits)[i].flatten(), all_levels(heads.deltas)[i].flatten()})
              .detach();
    }
    const DetectionLoss loss = detection_loss(heads, anchors, batch_targets(batch, c10::kCPU),
                                              LossOptions(), kStepRealImages);
    before_backward(loss, &slots == &micro_batches.back());
    loss.backward();
  }
  return outputs;
}

StepResult step_f64(Communicator& communicator, const Sharing& sharing) {
  RetinaNet model = step_model_f64(sharing.norm);
  GradientBuckets buckets(trainable(model), sharing.buckets, communicator);
  std::unique_ptr<QueuedRankSum> sum;
  if (sharing.sync_bn && buckets.queue() != nullptr) {
    sum = std::make_unique<QueuedRankSum>(*buckets.queue());
    model.share_statistics(sum.get());
  }
  auto outputs =
      run_micro_batches_f64(model, sharing.micro_batches, [&](const DetectionLoss&, bool last) {
        if (last) buckets.expect_last_backward();
      });
  buckets.all_reduce();
  StepResult result = result_of(model);
  result.outputs = std::move(outputs);
  return result;
}

StepResult step_f32(Communicator& communicator, const Sharing& sharing) {
  Replica replica({.task = {.model = step_model(sharing.norm)},
                   .buckets = sharing.buckets,
                   .sync_bn = sharing.sync_bn},
                  communicator);
  set_step_weights(replica.network());
  for (const auto& slots : sharing.micro_batches) {
    Batch batch = step_batch(slots);
    batch.part = {.real_image_count = kStepRealImages,
                  .is_last_micro_batch = &slots == &sharing.micro_batches.back()};
    replica.backward(replica.loss(replica.forward(batch), batch), batch.part.is_last_micro_batch);
  }
  replica.all_reduce();
  return result_of(replica.network());
}

Difference compare(const NamedTensors& ours, const NamedTensors& theirs) {
  RETINA_CHECK(ours.size() == theirs.size() && !ours.empty());
  Comparison comparison;
  for (std::size_t i = 0; i < ours.size(); ++i) comparison.add(ours[i].tensor, theirs[i].tensor);
  return comparison.result();
}

Difference compare(const std::map<std::int64_t, at::Tensor>& ours,
                   const std::map<std::int64_t, at::Tensor>& theirs) {
  RETINA_CHECK(!ours.empty());
  Comparison comparison;
  for (const auto& [slot, values] : ours) comparison.add(values, theirs.at(slot));
  return comparison.result();
}

}  // namespace retina
