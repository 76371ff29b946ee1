// One class for the whole image: a classifier and cross-entropy.
#pragma once

#include <memory>

#include "shared/model/classifier.h"
#include "train/step/training_task.h"

namespace retina {

class ClassificationTask : public TrainingTask {
 public:
  explicit ClassificationTask(const TaskOptions& options)
      : options_(options), network_(make_classifier(options.model)) {}

  Classifier& network() override { return *network_; }
  Pass pass(const at::Tensor& images, const Batch& batch, StepClock& clock) override;

 private:
  TaskOptions options_;
  std::unique_ptr<Classifier> network_;
};

}  // namespace retina
