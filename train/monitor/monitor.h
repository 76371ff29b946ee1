// What a run reports about itself: metrics.jsonl, TensorBoard's events, the progress line, where
// each epoch's time went, how fast it was, the report. Fed one record a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/cli.h"
#include "shared/base/progress.h"
#include "shared/comm/communicator.h"
#include "shared/report/report.h"
#include "train/monitor/epoch_times.h"
#include "train/monitor/event_file.h"
#include "train/monitor/metrics_log.h"
#include "train/monitor/throughput.h"
#include "train/run/run_dir.h"

namespace retina {

// References outlive the monitor.
struct MonitorInput {
  std::string title;  // of the report
  const std::vector<EffectiveOption>& effective_options;
  Communicator& communicator;
  const RunDir* run_dir = nullptr;  // rank 0 only; null: nothing is written
  std::string tensorboard = {};     // folder of TensorBoard's events; empty: none
  std::int64_t total_steps = 0;
};

class Monitor {
 public:
  explicit Monitor(const MonitorInput& input);

  // Training continues after `step`: what the log has of later steps is removed, and TensorBoard
  // drops it.
  void begin(std::int64_t step);

  // The run goes on with another length: the log and the report have the place. After `begin`.
  void add(const LengthChange& change) {
    if (log_) log_->append(change);
  }

  // A step is done, as this rank saw it.
  void add(const StepMetrics& step);

  // An epoch ends, or the run within one: rank 0 writes the epoch's line and warns of a rank that
  // holds up the others. Collective.
  void close_epoch(const EpochPoint& point) {
    epoch_times_.close(input_.communicator, point, log_ ? &*log_ : nullptr);
  }

  // The validation after a step, with images of it; rank 0.
  void add_validation(const ValidationMetrics& metrics, Table classes, Gallery gallery);
  // ValidationMetrics::judged() of the validation right after this step.
  std::optional<double> evaluated_of(std::int64_t step) const;

  // Writes the report with the images of the last validation; rank 0.
  void write_report();

  // The progress line gives way to lines of the log, or ends; rank 0.
  void clear_progress() { progress_->clear(); }
  void finish_progress() { progress_->finish(); }

  // All that was logged is on the disk when this returns. Throws kIo.
  void sync() {
    if (log_) log_->sync();
    if (events_) events_->sync();
  }
  // How fast the steps were, see throughput.h. Collective.
  const Throughput& throughput() const { return throughput_; }

 private:
  // Of the latest step and the latest validation.
  std::string progress_text() const;

  MonitorInput input_;
  std::optional<MetricsLog> log_;     // rank 0 that writes
  std::optional<EventFile> events_;   // rank 0 with --tensorboard
  std::optional<Progress> progress_;  // rank 0
  std::string latest_;                // step, in words; rank 0
  Throughput throughput_;
  EpochTimes epoch_times_;
  // The last validation, its classes and images; rank 0.
  std::optional<ValidationMetrics> validation_;
  Table classes_;
  Gallery gallery_;
  std::int64_t validated_step_ = -1;
};

}  // namespace retina
