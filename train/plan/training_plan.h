// The run's steps one after the other, over pass borders: what the loader asks for and what the
// loop counts by. Each user has its own; it keeps one pass's order at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/plan/epoch_plan.h"

namespace retina {

class TrainingPlan {
 public:
  // `index` must outlive the plan. An epoch is a pass over the data, or with
  // `epoch_steps` > 0 that many steps, wherever the passes end (keras-retinanet's --steps).
  TrainingPlan(const std::vector<IndexEntry>& index, const EpochPlanOptions& options,
               std::int64_t epoch_steps = 0);

  std::int64_t steps_per_data_epoch() const { return steps_per_data_epoch_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  // `step` counts from 0 over the whole run.
  std::int64_t epoch_of(std::int64_t step) const { return step / steps_per_epoch_; }
  GlobalStep at(std::int64_t step);

 private:
  const std::vector<IndexEntry>& index_;
  EpochPlanOptions options_;
  std::int64_t steps_per_data_epoch_, steps_per_epoch_;
  std::int64_t epoch_ = -1;
  std::unique_ptr<EpochPlan> plan_;
};

}  // namespace retina
