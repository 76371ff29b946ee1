#include "train/plan/training_plan.h"

namespace retina {

TrainingPlan::TrainingPlan(const std::vector<IndexEntry>& index, const EpochPlanOptions& options,
                           std::int64_t epoch_steps)
    : index_(index),
      options_(options),
      steps_per_data_epoch_(
          retina::steps_per_data_epoch(draws_per_epoch(index, options), options.images_per_step)),
      steps_per_epoch_(epoch_steps > 0 ? epoch_steps : steps_per_data_epoch_) {}

GlobalStep TrainingPlan::at(std::int64_t step) {
  const std::int64_t epoch = step / steps_per_data_epoch_;
  if (epoch != epoch_) {
    epoch_ = epoch;
    epoch_plan_ = std::make_shared<EpochPlan>(index_, options_, epoch);
  }
  GlobalStep whole = epoch_plan_->step(step % steps_per_data_epoch_);
  whole.number = step;
  return whole;
}

}  // namespace retina
