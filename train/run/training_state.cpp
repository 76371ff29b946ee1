#include "train/run/training_state.h"

#include <iterator>

namespace retina {

void Rollback::skip(std::int64_t step) {
  skipped_.insert(step);
  ++returns_;
  made_step_ = false;
}

void Rollback::saved() {
  if (made_step_) returns_ = 0;
  start_.reset();
}

std::int64_t Rollback::skipped_before(std::int64_t step) const {
  return std::distance(skipped_.begin(), skipped_.lower_bound(step));
}

RunState TrainingState::saved(std::optional<double> ap) const {
  return {.step = step_,
          .epoch = (step_ + steps_per_epoch_ - 1) / steps_per_epoch_,
          .samples_seen = samples_seen_,
          .epoch_closed = is_epoch_closed(),
          .skipped_steps = rollback.skipped(),
          .adaptive_schedule = schedule.state(),
          .ap = ap,
          .learning_rate = learning_rate()};
}

void TrainingState::restore(const RunState& state) {
  step_ = state.step;
  samples_seen_ = state.samples_seen;
  closed_step_ = state.epoch_closed ? step_ : -1;
  schedule.restore(state.adaptive_schedule, state.ap);
  rollback.merge(state.skipped_steps);
}

}  // namespace retina
