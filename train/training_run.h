// A training run: what it is made of, and all that happens between its steps: where it starts,
// epochs' ends with their validations, checkpoints, the way back from a step that failed, its end.
// The steps themselves are the Trainer's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "train/job.h"
#include "train/memory_need.h"
#include "train/monitor/monitor.h"
#include "train/monitor/validation.h"
#include "train/plan/step_loader.h"
#include "train/run/saving.h"
#include "train/run/training_state.h"
#include "train/step/replica.h"
#include "train/step/replica_check.h"

namespace retina {

// What a run's memory is enough for, in words: "memory: a rank needs about 3.1 GiB of 7.5 GiB (this
// machine) for 16 images at a time".
struct MemoryPlan {
  std::string text = {};  // of the rank that has the least to spare; on rank 0, else ""
  bool is_tight = false;  // it may run out, or takes fewer images at once than a step has
};

class TrainingRun {
 public:
  // Builds model and optimizer. The job outlives it. Collective.
  explicit TrainingRun(Job& job);

  // Starts from a checkpoint of this run, or from other weights. Used on rank 0; says what another
  // length than before changes. Collective.
  void resume(const Checkpoint& checkpoint, const std::string& source);
  void initialise_from(const Checkpoint& checkpoint, const std::string& source);
  // The loop begins.
  void begin();

  // Settles how many of a rank's images go through the network at once: as --micro-batch says, or
  // with `auto` as many as fit on every rank. Before the first step, whose number is known. Throws
  // kUnavailable where not even one fits. Collective.
  MemoryPlan fit_into_memory();
  // Images of a rank at once; the same on all ranks.
  int micro_batch() const { return micro_batch_; }
  // Whether a step that ran out of memory on some rank can be repeated with fewer; the same on all
  // ranks.
  bool may_take_fewer() const;
  // Step number `step` is to be repeated with half as many. `problem`: why, "" on ranks that had
  // enough. Collective.
  void take_fewer(std::int64_t step, const std::string& problem);
  // The step cannot be repeated: throws kUnavailable. On the rank that lacks memory; its end is
  // that of the job.
  [[noreturn]] void fail_without_memory(std::int64_t step, const std::string& problem) const;

  // The steps from here to the end, for a loader.
  StepLoaderInput loading() const;

  // Runs the validation that is due, settles the epoch, tells the schedule. False when a stop
  // signal came before: none of it has happened then, and a run that continues begins with it.
  // Collective.
  bool finish_epoch();
  // A stop came with the last step of an epoch, or its validation: that is made up for, and saved.
  // Nothing to do, and true, where no epoch is open. Collective.
  bool finish_interrupted_epoch();

  // Writes a checkpoint of this step, if the run writes any. Throws Error{kRankFailure} when the
  // ranks' weights have drifted. Collective.
  void save();

  // A step's loss or gradient is not finite, as `problem` says: it is skipped from now on. Throws
  // kAnswerNo without --on-nan rollback, or when that happens too often. All ranks call it.
  void skip(const StepMetrics& step, const std::string& problem);
  // Back to the last checkpoint, or the start of this job. Collective.
  void go_back();
  // Throws `error` on all ranks: on rank 0 once the checkpoint under way is written (throws instead
  // what went wrong with it); the others wait in a barrier until rank 0 has ended the job.
  [[noreturn]] void fail(const Error& error);

  // The loop has ended, at the last step or by a stop signal; after a signal this step is saved, if
  // it is not yet. Waits for the checkpoint under way and writes the last report; throws what went
  // wrong with either. Collective.
  void end(bool stopped);

  Job& job;
  const TrainOptions& options;
  Communicator& communicator;
  TrainingState state;
  Replica replica;
  Monitor monitor;
  Saving saving;
  ReplicaChecks replica_checks;

 private:
  RunState restore(const Checkpoint& checkpoint, const std::string& source);
  bool is_scheduled_validation() const;
  bool run_validation();
  void take_validation();
  void tell_plateau(bool dropped) const;
  MemoryPlan memory_plan(int share) const;
  bool norm_follows_micro_batch() const;

  std::unique_ptr<Validation> validation_;  // null: none
  // The checkpoint that the job continues from had another length.
  std::optional<LengthChange> length_change_;
  int micro_batch_;
  std::optional<MemoryNeed> need_;  // once it is known
  bool reached_goal_ = false;       // of --stop-at-ap; rank 0
};

}  // namespace retina
