// THE loop: next batch -> forward -> loss -> backward -> all-reduce -> clip -> update -> record ->
// save.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/data/loader.h"
#include "shared/shard/shard_set.h"
#include "train/monitor/monitor.h"
#include "train/monitor/reduction_log.h"
#include "train/monitor/timeline.h"
#include "train/monitor/validation.h"
#include "train/options.h"
#include "train/plan/image_names.h"
#include "train/plan/step_loader.h"
#include "train/plan/training_plan.h"
#include "train/plan/training_set.h"
#include "train/run/rollback.h"
#include "train/run/run_dir.h"
#include "train/run/saving.h"
#include "train/schedule/adaptive_schedule.h"
#include "train/step/damaged_records.h"
#include "train/step/replica.h"
#include "train/step/replica_check.h"
#include "train/step/step_agreement.h"

namespace retina {

// What all ranks of a run were given. References outlive the trainer.
struct TrainerInput {
  const TrainOptions& options;
  const std::vector<EffectiveOption>& effective_options;
  const TrainingSet& train;
  const ShardSet* validation = nullptr;     // null: none
  std::string validation_fingerprint = {};  // empty: none
  Communicator& communicator;
  RunDir* run_dir = nullptr;         // rank 0 only; null: nothing is written
  TimelineFile* timeline = nullptr;  // null: none
  c10::Device device = c10::kCPU;
  // Steps launched before the first one's loss is read.
  std::size_t steps_in_flight = device.is_cuda() ? 1 : 0;
};

class Trainer {
 public:
  // Builds model, optimizer and plan. Collective.
  explicit Trainer(const TrainerInput& input);

  // Starts from a checkpoint of this run, or from other weights. Used on rank 0. Collective.
  void resume(const Checkpoint& checkpoint, const std::string& source);
  void initialise_from(const Checkpoint& checkpoint, const std::string& source);

  // The training shards that this rank will read, in the order of their first use from here on.
  std::vector<std::size_t> shards_ahead() const { return retina::shards_ahead(loading()); }

  // Trains to the end or until a stop signal. Returns the exit code: 0 or 75. Collective. Throws
  // Error{kAnswerNo} when the loss is not finite (with --on-nan rollback: too often), Error{kIo}
  // when a checkpoint cannot be written, Error{kRankFailure} when the ranks' weights have drifted.
  int run();

  // How fast the steps of `run` were, see throughput.h. Collective.
  std::string throughput() const { return monitor_.throughput().summary(communicator_); }
  // The same for a scaling report. Collective.
  ScalingRun scaling_run() const {
    return monitor_.throughput().scaling_run(communicator_, replica_.bucket_bytes());
  }

 private:
  // What became of a step; all ranks agree on it.
  struct StepOutcome {
    bool is_finite = true;  // else it made no update, and is left out from now on
    bool stop = false;      // a stop signal came to a rank
    bool save_due = false;  // rank 0's clock says so
  };

  bool is_root() const { return communicator_.is_root(); }
  bool at_end() const { return step_ >= total_steps_ || schedule_.ended_early(); }
  bool at_epoch_end() const { return step_ % plan_.steps_per_epoch() == 0; }
  bool epoch_is_closed() const { return closed_step_ == step_; }

  // The parts of `run`, in the order of their use.
  void begin();
  StepLoaderInput loading() const;  // from here to the end
  StepOutcome train_step(BatchLoader& batches);
  // The passes, sums and update of the next step, which joins those in flight.
  void launch_step(BatchLoader& batches);
  // With the figures of the oldest step in flight, or none. Collective.
  StepAgreement agree_on(StepAgreement own, bool with_metrics);
  // The oldest step in flight has come to this. False: it is left out.
  bool finish_step(const StepAgreement& agreement);
  // The same for all of them, or to the first that is left out. Collective.
  bool land_steps();
  void leave_out(const StepMetrics& step, const std::string& problem);
  void stop_for_damage();
  void go_back();
  // False when a stop signal came before the epoch was closed.
  bool close_epoch();
  bool close_open_epoch();
  void save();
  void end(bool stopped);

  bool is_scheduled_validation() const;
  // False when a stop signal came meanwhile.
  bool run_validation();
  void watch_validation(std::int64_t epoch);
  void tell_pace(bool dropped);
  RunState state() const;

  const TrainOptions& options_;
  TrainerInput input_;
  Communicator& communicator_;
  const TrainingPlan plan_;
  const std::int64_t total_steps_;
  Replica replica_;
  std::unique_ptr<Validation> validation_;  // null: none
  Monitor monitor_;
  ReductionLog reduction_log_;  // rank 0
  Saving saving_;

  // Steps that were launched and whose loss nobody has read. A GPU has one after each step, so that
  // it never waits for the program; none is left where a checkpoint, a validation, a stop or an
  // epoch's end comes next.
  std::deque<StepMetrics> in_flight_;

  // Where training stands; all of it is in each checkpoint.
  std::int64_t step_ = 0;  // steps done or left out
  std::int64_t samples_seen_ = 0;
  // The latest step after which no epoch was left open: an epoch is open from its last step to the
  // end of its validation.
  std::int64_t closed_step_ = 0;
  AdaptiveSchedule schedule_;
  Rollback rollback_;

  ReplicaChecks replica_checks_;
  IgnoredBoxWarning ignored_box_warning_;
  DamagedRecords damaged_records_;
};

}  // namespace retina
