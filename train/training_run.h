// A training run: its parts, and all that happens between its steps: the start, epochs' ends with
// their validations, checkpoints, rollbacks of failed steps, the end. The steps themselves are the
// Trainer's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "train/memory_need.h"
#include "train/monitor.h"
#include "train/monitor/validation.h"
#include "train/plan/step_loader.h"
#include "train/run/saving.h"
#include "train/run/training_state.h"
#include "train/start/job.h"
#include "train/step/replica.h"
#include "train/step/replica_check.h"

namespace retina {

// A memory forecast for a run: "memory: a rank needs about 3.1 GiB of 7.5 GiB (this machine) for 16
// images at a time".
struct MemoryPlan {
  std::string text = {};  // for the rank with the least to spare; on rank 0, else ""
  bool is_tight = false;  // memory may run out, or a step's images go through in parts
};

class TrainingRun {
 public:
  // Builds model and optimizer. `job` must outlive this. Collective.
  explicit TrainingRun(Job& job);

  // Starts from a checkpoint of this run, logging what a changed length of the run changes, or from
  // other weights. `source` names the checkpoint in errors. The arguments are used on rank 0.
  // Collective.
  void resume(const Checkpoint& checkpoint, const std::string& source);
  void initialise_from(const Checkpoint& checkpoint, const std::string& source);
  // Starts logging and saving; called before the loop.
  void begin();

  // Decides how many of a rank's images go through the network at once: as --micro-batch says, or
  // with `auto` as many as fit on every rank. Must be called when the number of the first step is
  // known, before that step. Throws kUnavailable where not even one fits. Collective.
  MemoryPlan fit_into_memory();
  // Returns the images that a rank processes at once; the same on all ranks.
  int micro_batch() const { return micro_batch_; }
  // Returns whether a step that ran out of memory on some rank can be repeated with fewer images at
  // once; the same on all ranks.
  bool can_halve_micro_batch() const;
  // Halves the micro-batch, for repeating step number `step`. `problem` is the reason, "" on ranks
  // that had enough memory. Collective.
  void halve_micro_batch(std::int64_t step, const std::string& problem);
  // Throws kUnavailable for a step that cannot be repeated, on the rank that lacks memory; this
  // ends the job.
  [[noreturn]] void fail_without_memory(std::int64_t step, const std::string& problem) const;

  // Returns a loader's input for the steps from here to the end.
  StepLoaderInput loading() const;

  // Returns what the last validation's AP means; "" before the end, and where nothing is told.
  // Rank 0.
  const std::string& verdict() const { return verdict_; }

  // Ends the epoch: runs the validation that is due and updates the schedule. Returns false when a
  // stop signal came first: then the epoch stays open, and the run that continues begins by ending
  // it. Collective.
  bool finish_epoch();
  // Returns whether, in a run with --for, enough steps have been made since the pace was measured.
  bool is_pace_due() const;
  // In a run with --for, fits the steps that are left to the time that is left, where the two
  // stray. Returns true if their number has changed: loaders then end elsewhere. Called where rank
  // 0's pace is due and at epoch ends, with no step under way. Collective.
  bool refit_length();
  // Ends an epoch whose validation a stop signal prevented, and saves. Returns true without doing
  // anything when no epoch is open, and false when a stop signal came again. Collective.
  bool finish_interrupted_epoch();

  // Writes a checkpoint of this step, if the run writes any. Throws Error{kRankFailure} when the
  // ranks' weights have drifted. Collective.
  void save();

  // Skips, from now on, a step whose loss or gradient is not finite, as `problem` says. Throws
  // kAnswerNo without --on-nan rollback, or after too many rollbacks. Collective.
  void skip(const StepMetrics& step, const std::string& problem);
  // Returns to the last checkpoint, or to the start of this job. Collective.
  void go_back();
  // Throws `error` on all ranks. Rank 0 first waits for the checkpoint under way, and throws that
  // one's error instead if it fails; the others wait in a barrier until rank 0 has ended the job.
  [[noreturn]] void fail(const Error& error);

  // Ends the run at its last step or, if `stopped`, after a stop signal; then saves this step
  // unless it is saved. Waits for the checkpoint under way and writes the last report; throws the
  // error of either. Collective.
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
  // Measures the pace. Returns how many steps the run then has in all; 0: as many as planned. Rank
  // 0.
  std::int64_t steps_in_time();
  bool run_validation();
  void report_validation();
  void log_plateau(bool dropped) const;
  MemoryPlan memory_plan(int share) const;
  bool norm_follows_micro_batch() const;

  std::unique_ptr<Validation> validation_;  // null without validation
  // Set when the checkpoint that the job continues from had another length.
  std::optional<LengthChange> length_change_;
  int micro_batch_;
  std::optional<MemoryNeed> need_;  // unset until it is measured
  // Measured times for refit_length(); rank 0's decide.
  struct Pace {
    double left_s = 0;   // when the job began
    double begin_s = 0;  // on the clock, without validations since
    std::int64_t begin_step = 0;
    double step_s = 0, validation_steps = 0;  // a validation takes as long as so many steps
  } pace_;
  std::string verdict_;
  bool reached_goal_ = false;  // the goal of --stop-at-ap; rank 0
};

}  // namespace retina
