// A training run: what it is made of, and all that happens between its steps: where it starts,
// epochs' ends with their validations, checkpoints, the way back from a step that failed, its end.
// The steps themselves are the Trainer's.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "train/job.h"
#include "train/monitor/monitor.h"
#include "train/monitor/validation.h"
#include "train/plan/step_loader.h"
#include "train/run/saving.h"
#include "train/run/training_state.h"
#include "train/step/replica.h"
#include "train/step/replica_check.h"

namespace retina {

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

  std::unique_ptr<Validation> validation_;  // null: none
  // The checkpoint that the job continues from had another length.
  std::optional<LengthChange> length_change_;
};

}  // namespace retina
