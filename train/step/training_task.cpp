#include "train/step/training_task.h"

#include <torch/csrc/autograd/autograd.h>

namespace retina {

void TaskLoss::backward() const {
  torch::autograd::backward(outputs, gradients);
}

std::unique_ptr<TrainingTask> make_training_task(const TaskOptions& options) {
  return options.model.task == Task::kClassification ? make_classification_task(options)
                                                     : make_detection_task(options);
}

}  // namespace retina
