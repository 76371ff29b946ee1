// The state of training, as the loop counts: steps, epochs, the learning rate, skipped steps. The
// same on every rank; a checkpoint keeps a part of it as RunState.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "shared/checkpoint/checkpoint.h"
#include "train/run/run_state.h"
#include "train/schedule/adaptive_schedule.h"

namespace retina {

// --on-nan rollback: the steps that are skipped because their loss was not finite, and the state to
// return to while a run has no checkpoint. Every rank keeps the same list.
class Rollback {
 public:
  // After this many consecutive rollbacks without progress, single steps are not the cause.
  static constexpr int kMostReturns = 3;

  bool may_return() const { return returns_ < kMostReturns; }
  // Skips step `step`, counted from 0, from now on, and counts a rollback.
  void skip(std::int64_t step);
  // Records a successful step.
  void made_step() { made_step_ = true; }
  // Forgets the start: a new checkpoint replaces it. Resets the count of consecutive rollbacks if a
  // step succeeded since the latest one; skipped steps alone are no progress.
  void saved();

  bool skips(std::int64_t step) const { return skipped_.contains(step); }
  const std::set<std::int64_t>& skipped() const { return skipped_; }
  // Returns the number of steps skipped before `step`: those made no update.
  std::int64_t skipped_before(std::int64_t step) const;

  // Keeps the state at the start of this job; rank 0.
  void keep_start(Checkpoint start) { start_ = std::move(start); }
  const std::optional<Checkpoint>& start() const { return start_; }

  // Adds the skipped steps of the checkpoint that the run continues from.
  void merge(const std::set<std::int64_t>& skipped) {
    skipped_.insert(skipped.begin(), skipped.end());
  }

 private:
  std::set<std::int64_t> skipped_;
  int returns_ = 0;
  bool made_step_ = false;  // since the latest rollback
  std::optional<Checkpoint> start_;
};

class TrainingState {
 public:
  // The run ends after `rule.schedule.total_steps`, or earlier by early stop.
  TrainingState(const AdaptiveScheduleOptions& rule, std::int64_t steps_per_epoch)
      : schedule(rule),
        total_steps_(rule.schedule.total_steps),
        steps_per_epoch_(steps_per_epoch) {}

  std::int64_t step() const { return step_; }  // steps made or skipped
  // Returns the number of steps that changed the weights.
  std::int64_t update_count() const { return step_ - rollback.skipped_before(step_); }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  // Returns the epoch of step number `step` (from 1), counted from 1.
  std::int64_t epoch_of(std::int64_t step) const { return (step - 1) / steps_per_epoch_ + 1; }
  bool at_end() const { return step_ >= total_steps_ || schedule.ended_early(); }
  bool at_epoch_end() const { return step_ % steps_per_epoch_ == 0; }
  // Returns the rate of the next update.
  double learning_rate() const { return schedule.learning_rate(step_); }

  // Returns false while an epoch is open: from its last step to the end of its validation.
  bool is_epoch_closed() const { return closed_step_ == step_; }
  // Closes the epoch at this step: it ends none, or its epoch's validation is done.
  void close_epoch() { closed_step_ = step_; }

  void make_step(std::int64_t image_count) {
    ++step_;
    samples_seen_ += image_count;
  }
  void skip_step() { ++step_; }
  // Gives the run another length from here on.
  void set_length(const ScheduleOptions& rule) {
    schedule.set_schedule(rule);
    total_steps_ = rule.total_steps;
  }

  // Returns the state to save. `ap` is that of the validation after this step, a classifier's top-1
  // accuracy. RunState::facts is left empty; Saving fills it in.
  RunState saved(std::optional<double> ap) const;
  // Restores a saved state. Steps skipped so far stay skipped.
  void restore(const RunState& state);

  AdaptiveSchedule schedule;  // and the sums of the epoch's loss
  Rollback rollback;

 private:
  std::int64_t total_steps_, steps_per_epoch_;
  std::int64_t step_ = 0, samples_seen_ = 0;
  std::int64_t closed_step_ = 0;  // the latest step after which no epoch was open
};

}  // namespace retina
