// The task that a run learns: a network and its loss, one each for detection and classification;
// the replica does the rest of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/data/batch.h"
#include "shared/model/heads.h"
#include "shared/model/network.h"
#include "shared/model/precision.h"
#include "train/step/detection_loss.h"

namespace retina {

struct TaskOptions {
  ModelConfig model = {};
  LossOptions loss = {};       // a detector's
  double label_smoothing = 0;  // a classifier's: Szegedy et al. 2016, section 7
  std::uint64_t seed = 1;      // seed of dropout
  Precision precision = Precision::kFp32;
};

// The network's outputs for a micro-batch; those of another task are undefined.
struct TaskOutputs {
  HeadOutputs heads = {};  // detection
  at::Tensor logits = {};  // classification: [N, K]
  // Classification: [3, N] i64, labels, counts and slots of the images; undefined for an
  // evaluation's forward: loss() then makes it.
  at::Tensor targets = {};
};

struct TaskLoss {
  at::Tensor
      metrics;  // [task_metrics().size()] f64: this micro-batch's parts of the step's metrics
  // The network's outputs that want a gradient, and the gradient of the loss at each.
  std::vector<at::Tensor> outputs = {}, gradients = {};

  // Backpropagates from the outputs to the parameters.
  void backward() const;
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual Network& network() = 0;

  // Runs the network on `images` [N, 3, H, W], the batch's, on the network's device. On a GPU
  // neither this nor loss() waits for the device.
  virtual TaskOutputs forward(const at::Tensor& images, const Batch& batch) = 0;
  // Returns this batch's part of the step's loss: sums over images and ranks make it whole. An
  // evaluation's batches (plan_evaluation()) and the outputs for them count as a step, too. The
  // gradients, but not the metrics, are multiplied by `gradient_scale`, a scalar f32 on the
  // network's device; undefined: 1.
  virtual TaskLoss loss(const TaskOutputs& outputs, const Batch& batch,
                        const at::Tensor& gradient_scale) = 0;
};

// Makes the task of options.model.task; weights are zero.
std::unique_ptr<TrainingTask> make_training_task(const TaskOptions& options);

}  // namespace retina
