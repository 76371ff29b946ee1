// THE loop: next batch -> forward -> loss -> backward -> all-reduce -> clip -> step -> log -> save.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/progress.h"
#include "shared/comm/communicator.h"
#include "shared/comm/timeline/timeline.h"
#include "shared/data/loader.h"
#include "shared/shard/shard_set.h"
#include "train/epoch_books.h"
#include "train/metrics_log.h"
#include "train/options.h"
#include "train/plan/pacing.h"
#include "train/plan/training_plan.h"
#include "train/reduction_log.h"
#include "train/replica.h"
#include "train/rollback.h"
#include "train/run_dir.h"
#include "train/saving.h"
#include "train/step_agreement.h"
#include "train/throughput.h"
#include "train/training_set.h"
#include "train/validation.h"

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
};

class Trainer {
 public:
  // Builds model, optimizer and plan. Collective.
  explicit Trainer(const TrainerInput& input);

  // Starts from a checkpoint of this run, or from other weights. Looked at on rank 0. Collective.
  void resume(const Checkpoint& checkpoint, const std::string& source);
  void initialise_from(const Checkpoint& checkpoint, const std::string& source);

  // Trains to the end or until a stop signal. Returns the exit code: 0 or 75. Collective. Throws
  // Error{kAnswerNo} when the loss is not finite (with --on-nan rollback: too often), Error{kIo}
  // when a checkpoint cannot be written, Error{kRankFailure} when the ranks' weights have drifted.
  int run();

  // How fast the steps of `run` were, see throughput.h. Collective.
  std::string throughput() const { return throughput_.summary(communicator_); }
  // The same for a scaling report. Collective.
  ScalingRun scaling_run() const {
    return throughput_.scaling_run(communicator_, replica_.bucket_bytes());
  }

 private:
  bool is_root() const { return communicator_.is_root(); }
  bool writes() const { return input_.run_dir != nullptr; }
  MetricsLog* metrics_log() { return log_ ? &*log_ : nullptr; }
  bool at_end() const { return step_ >= total_steps_ || pacing_.ended_early(); }
  std::int64_t epoch_in_progress() const { return plan_.epoch_of(step_) + 1; }
  std::unique_ptr<BatchLoader> make_loader();
  void train_step(BatchLoader& loader);
  bool is_finite(const StepAgreement& agreement, double gradient_norm);
  void check_replicas();
  void finish_saving();
  void go_back();
  SavePoint save_point(bool epoch_end) const;
  void close_epoch();
  void close_open_epoch();
  bool is_scheduled_validation() const;
  bool detect_for_validation();
  void validate(std::int64_t epoch);
  void tell_pace(bool dropped);
  void save(bool epoch_end);
  void write_report();
  void log_step(const StepMetrics& metrics);

  const TrainOptions& options_;
  TrainerInput input_;
  Communicator& communicator_;
  TrainingPlan plan_;
  Pacing pacing_;
  Replica replica_;
  std::optional<Validation> validation_;
  std::optional<CocoMetrics> last_metrics_;  // rank 0
  std::optional<MetricsLog> log_;            // rank 0 that writes
  std::optional<Progress> progress_;         // rank 0
  ReductionLog reduction_log_;               // rank 0
  Throughput throughput_;
  EpochBooks books_;
  Rollback rollback_;
  std::int64_t step_ = 0;          // steps done
  std::int64_t checked_step_ = 0;  // the latest whose replicas were compared
  std::int64_t total_steps_ = 0;
  std::int64_t samples_seen_ = 0;
  bool epoch_closed_ = true;  // false between an epoch's last step and its validation
  bool stop_ = false, save_now_ = false, lost_ = false, resumed_ = false;
  bool told_left_out_ = false;
  Saving saving_;
};

}  // namespace retina
