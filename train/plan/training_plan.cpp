#include "train/plan/training_plan.h"

namespace retina {

TrainingPlan::TrainingPlan(const std::vector<IndexEntry>& index, const EpochPlanOptions& options,
                           std::int64_t epoch_steps)
    : index_(index),
      options_(options),
      steps_per_pass_(
          retina::steps_per_pass(draws_per_pass(index, options), options.images_per_step)),
      steps_per_epoch_(epoch_steps > 0 ? epoch_steps : steps_per_pass_) {}

GlobalStep TrainingPlan::at(std::int64_t step) {
  const std::int64_t pass = step / steps_per_pass_;
  if (pass != pass_) {
    pass_ = pass;
    plan_ = std::make_unique<EpochPlan>(index_, options_, pass_);
  }
  GlobalStep whole = plan_->step(step % steps_per_pass_);
  whole.number = step;
  return whole;
}

}  // namespace retina
