// Boxes with classes: a RetinaNet and its losses.
#pragma once

#include "shared/model/retinanet.h"
#include "train/step/training_task.h"

namespace retina {

class DetectionTask : public TrainingTask {
 public:
  explicit DetectionTask(const TaskOptions& options) : options_(options), network_(options.model) {}

  RetinaNet& network() override { return network_; }
  Pass pass(const at::Tensor& images, const Batch& batch, StepClock& clock) override;

 private:
  TaskOptions options_;
  RetinaNet network_;
};

}  // namespace retina
