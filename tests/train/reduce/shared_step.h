// A step of 8 images that ranks share, and what comes of it, for checks that compare ways of
// sharing. Nearly all boxes are in the first images, one image has none, one slot is a pad slot.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/data/batch.h"
#include "shared/model/retinanet.h"
#include "train/reduce/gradient_buckets.h"
#include "train/step/detection_loss.h"
#include "train/step/optimizer.h"

namespace retina {

constexpr int kStepImages = 8;
constexpr std::int64_t kStepRealImages = 7;  // the last slot is a pad slot

// ResNet-18 with frozen norms and heads without, or with batch norm.
ModelConfig step_model(Norm norm);

// Norms that keep activations near 1, heads of some use.
void set_step_weights(Network& model);

// The images of these slots.
Batch step_batch(const std::vector<std::int64_t>& slots);

// The slots of each micro-batch of a rank, as the trainer cuts the step; one may have none.
using MicroBatches = std::vector<std::vector<std::int64_t>>;
MicroBatches step_micro_batches(int rank, int ranks, int micro_batch);
// The micro-batches of one rank with the images that those of all `ranks` have.
MicroBatches united_micro_batches(int ranks, int micro_batch);

// What the micro-batches leave behind.
struct StepResult {
  NamedTensors gradients = {};                      // by name, f64 copies
  NamedTensors statistics = {};                     // running mean and variance, f64 copies
  std::map<std::int64_t, at::Tensor> outputs = {};  // by slot: logits and deltas, flat, f64
};
// The first two, as the model has them now.
StepResult result_of(const Network& model);

// A model in f64 with the step's weights.
RetinaNet step_model_f64(Norm norm);
NamedTensors trainable(const RetinaNet& model);

// Forward, loss and backward of the micro-batches in f64. `before_backward` is called with the loss
// of each, and whether it is the last.
std::map<std::int64_t, at::Tensor> run_micro_batches_f64(
    RetinaNet& model, const MicroBatches& micro_batches,
    const std::function<void(const DetectionLoss& loss, bool last)>& before_backward);

inline const BucketOptions kManyBuckets = {.bucket_bytes = std::size_t{1} << 20};

// How ranks share the step.
struct Sharing {
  Norm norm = Norm::kFrozen;
  bool sync_bn = false;
  BucketOptions buckets = kManyBuckets;
  MicroBatches micro_batches = {};
};
StepResult step_f64(Communicator& communicator, const Sharing& sharing);
// In f32, by the trainer's replica. Without outputs.
StepResult step_f32(Communicator& communicator, const Sharing& sharing);

struct Difference {
  double of_norm = 0;    // of all tensors together
  double of_tensor = 0;  // the worst tensor, by its own norm
};
Difference compare(const NamedTensors& ours, const NamedTensors& theirs);
// Over the slots that `ours` has.
Difference compare(const std::map<std::int64_t, at::Tensor>& ours,
                   const std::map<std::int64_t, at::Tensor>& theirs);

}  // namespace retina
