// What a run learns: a network, and what a batch comes to in it. A task each for detection and
// classification; all else of a step is the replica's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/data/batch.h"
#include "shared/model/network.h"
#include "shared/model/precision.h"
#include "train/step/detection_loss.h"
#include "train/step/step_clock.h"

namespace retina {

struct TaskOptions {
  ModelConfig model = {};
  LossOptions loss = {};       // of a detector
  double label_smoothing = 0;  // of a classifier: Szegedy et al. 2016, section 7
  std::uint64_t seed = 1;      // of dropout
  Precision precision = Precision::kFp32;
};

// A pass, from the images to the gradient at the network's outputs.
struct Pass {
  at::Tensor metrics;  // [task_metrics().size()] f64: this pass's parts of the step's figures
  std::vector<at::Tensor> outputs = {}, gradients = {};

  // From the outputs to the parameters.
  void backward() const;
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual Network& network() = 0;

  // Forward and loss of a pass: `images` [N, 3, H, W] are the batch's, on the network's device. The
  // clock is in the part that uploads. On a GPU nothing waits for the device.
  virtual Pass pass(const at::Tensor& images, const Batch& batch, StepClock& clock) = 0;
};

// By options.model.task; weights are zero.
std::unique_ptr<TrainingTask> make_training_task(const TaskOptions& options);

}  // namespace retina
