#include "train/plan/training_plan.h"

namespace retina {

TrainingPlan::TrainingPlan(const std::vector<IndexEntry>& index, const EpochPlanOptions& options)
    : index_(index),
      options_(options),
      steps_per_epoch_(retina::steps_per_epoch(index.size(), options.images_per_step)) {}

GlobalStep TrainingPlan::at(std::int64_t step) {
  if (epoch_of(step) != epoch_) {
    epoch_ = epoch_of(step);
    plan_ = std::make_unique<EpochPlan>(index_, options_, epoch_);
  }
  return plan_->step(step % steps_per_epoch_);
}

}  // namespace retina
