#include "train/step/training_task.h"

#include <torch/csrc/autograd/autograd.h>

#include "train/step/classification_task.h"
#include "train/step/detection_task.h"

namespace retina {

void Pass::backward() const {
  torch::autograd::backward(outputs, gradients);
}

std::unique_ptr<TrainingTask> make_training_task(const TaskOptions& options) {
  if (options.model.task == Task::kClassification) {
    return std::make_unique<ClassificationTask>(options);
  }
  return std::make_unique<DetectionTask>(options);
}

}  // namespace retina
