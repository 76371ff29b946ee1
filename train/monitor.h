// Reports a run: metrics.jsonl, TensorBoard's events, the progress line, times of each epoch,
// throughput, the report. The run feeds it one record a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/progress.h"
#include "shared/cli/cli.h"
#include "shared/comm/communicator.h"
#include "shared/evaluation/score/verdict.h"
#include "shared/report/report.h"
#include "train/monitor/metrics_log.h"
#include "train/monitor/rank_times.h"
#include "train/reduce/gradient_buckets.h"
#include "train/report/event_file.h"
#include "train/run/run_dir.h"
#include "train/run/training_state.h"

namespace retina {

// References must outlive the monitor.
struct MonitorInput {
  std::string title;  // title of the report
  const std::vector<EffectiveOption>& effective_options;
  Communicator& communicator;
  RunDir* run_dir = nullptr;     // rank 0 only; null: nothing is written
  std::string tensorboard = {};  // folder of TensorBoard's events; empty: none
  std::int64_t total_steps = 0;
};

// Place where an epoch's times are closed: its end, or the end of a run within it.
struct EpochPoint {
  std::int64_t step = 0, epoch = 0;
  // Steps of the epoch except skipped ones. 0: its last step is not done.
  std::int64_t update_count = 0;
};

// Returns the point of `step`: in the epoch that it ends, or else in the one in progress.
EpochPoint epoch_point(std::int64_t step, std::int64_t steps_per_epoch, const Rollback& rollback);

class Monitor {
 public:
  explicit Monitor(const MonitorInput& input);

  // Prepares for training after `step`: removes later steps from the log and makes TensorBoard drop
  // them.
  void begin(std::int64_t step);

  // Records another length of the run in the log and the report. Call after `begin`.
  void add(const LengthChange& change) {
    if (log_) log_->append(change);
  }

  void set_total_steps(std::int64_t steps) {
    input_.total_steps = steps;
    if (progress_) progress_->set_total(steps);
  }

  // Reports how gradients will travel, in a line and in the run's folder. Call before the first
  // step.
  void begin_reduction(const GradientBuckets& buckets);
  // Warns once, at update number `step`, of gradients that were too large for the wire.
  void add_reduction(std::int64_t step, const GradientBuckets& buckets);

  // Adds a finished step, as this rank saw it.
  void add(const StepMetrics& step);

  // Closes an epoch, or the part of it in which the run ends: rank 0 writes the epoch's line and
  // warns of a rank that holds up the others. Collective.
  void close_epoch(const EpochPoint& point);

  // Adds the validation after a step, with images of it; rank 0.
  void add_validation(const ValidationMetrics& metrics, Table classes, Gallery gallery);
  // Returns ValidationMetrics::judged() of the validation right after this step.
  std::optional<double> evaluated_of(std::int64_t step) const;

  // Takes the last validation's facts for the verdict, which the report then begins with; returns
  // it. Rank 0.
  std::string conclude(VerdictInput facts);

  // Writes the report with the images of the last validation; rank 0.
  void write_report();

  // Hides or ends the progress line, before lines of the log; rank 0.
  void clear_progress() { progress_->clear(); }
  void finish_progress() { progress_->finish(); }

  // Writes all that was logged to the disk. Throws kIo.
  void sync() {
    if (log_) log_->sync();
    if (events_) events_->sync();
  }
  // Returns the speed of the steps.
  const Throughput& throughput() const { return throughput_; }

 private:
  // Returns the text of the latest step and the latest validation.
  std::string progress_text() const;

  MonitorInput input_;
  std::optional<MetricsLog> log_;     // on rank 0, if it writes
  std::optional<EventFile> events_;   // rank 0 with --tensorboard
  std::optional<Progress> progress_;  // rank 0
  std::string latest_;                // text of the latest step; rank 0
  Throughput throughput_;
  RankLedger ledger_;  // the epoch's
  bool has_reported_repeat_ = false;
  // The last validation, its classes and images; rank 0.
  std::optional<ValidationMetrics> validation_;
  Table classes_;
  Gallery gallery_;
  std::int64_t validated_step_ = -1;
  std::string verdict_;
};

}  // namespace retina
