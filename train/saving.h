// Saves the run: when a checkpoint is due, what it holds beside weights, under which names it goes
// to the run's folder. Writing itself goes on beside training (checkpoint_writer.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/cli.h"
#include "shared/comm/communicator.h"
#include "train/checkpoint_writer.h"
#include "train/metrics_log.h"
#include "train/options.h"
#include "train/plan/checkpoint_interval.h"
#include "train/plan/schedule.h"
#include "train/replica.h"
#include "train/run_dir.h"
#include "train/run_state.h"
#include "train/training_set.h"

namespace retina {

// What a run saves, and where. References outlive the saving.
struct SavingInput {
  const TrainOptions& options;
  const std::vector<EffectiveOption>& effective_options;
  const TrainingSet& train;
  std::string validation_fingerprint = {};  // empty: no validation
  Communicator& communicator;
  Replica& replica;
  RunDir* run_dir = nullptr;  // rank 0 only
  std::int64_t steps_per_epoch = 0, total_steps = 0;
};

class Saving {
 public:
  explicit Saving(const SavingInput& input);

  // The loop begins. Throws kIo when the folder has no room for what will be written: better now
  // than after an epoch. Rank 0.
  void begin();

  // The run continues from a checkpoint of this state. Without a validation set now, checkpoints
  // remember the one that its AP is of.
  void continue_from(const RunState& state);
  // It continues from what no checkpoint has.
  void forget_saved() { saved_step_ = -1; }

  // A step took so long; for --checkpoint-every auto. Throws what went wrong with a checkpoint that
  // was under way. Rank 0.
  void add_step(double seconds);
  // Milliseconds for which training stood still to save since this was last asked. Rank 0.
  double take_stall_ms() { return std::exchange(stall_ms_, 0.0); }

  // Whether a checkpoint is due after this step by the count of steps.
  bool is_due(std::int64_t step, bool epoch_end) const;
  // Whether one is due by the clock; rank 0's counts.
  bool is_due_by_clock() const;
  // The step of the newest checkpoint; -1: there is none.
  std::int64_t saved_step() const { return saved_step_; }

  // Copies all that is to be saved and begins to write it, after `log` has reached the disk (rank
  // 0). Throws kIo, and what went wrong with the previous checkpoint. Collective.
  void save(const RunState& state, MetricsLog* log);

  // All that would be saved now; rank 0.
  Checkpoint checkpoint_of(const RunState& state) const;

  // Waits for the checkpoint under way. Throws what went wrong with it.
  void finish();
  // The same, but a failure becomes a warning, and no reason not to try another checkpoint.
  void settle() { writer_.settle(); }

 private:
  // True when an epoch ends with this step, its validation included.
  bool ends_epoch(const RunState& state) const;
  RunPoint name_of(const RunState& state) const;
  void write(const RunState& state, MetricsLog& log);
  void set_interval();
  SavingInput input_;
  const TrainOptions& options_;
  std::optional<Span> period_;  // unset: auto
  // Rank 0, for auto.
  CheckpointMeter meter_;
  double interval_s_ = 0, told_interval_s_ = 0;
  bool was_writing_ = false;
  std::atomic<double> write_s_ = 0;

  double stall_ms_ = 0;
  std::int64_t saved_step_ = -1;
  double last_save_seconds_ = 0;
  CheckpointWriter writer_;  // rank 0; its thread uses what is above
};

}  // namespace retina
