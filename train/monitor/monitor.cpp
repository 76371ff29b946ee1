#include "train/monitor/monitor.h"

#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/comm/activity.h"
#include "shared/evaluation/explain/metrics_text.h"
#include "train/monitor/run_report.h"

namespace retina {

Monitor::Monitor(const MonitorInput& input) : input_(input) {}

void Monitor::begin(std::int64_t step) {
  if (!input_.communicator.is_root()) return;
  if (input_.run_dir != nullptr) log_.emplace(input_.run_dir->metrics_path(), step);
  if (!input_.tensorboard.empty()) events_.emplace(input_.tensorboard, step);
  if (!progress_) progress_.emplace("training", input_.total_steps, "steps");
  progress_->update(step);
  if (validated_step_ > step) validated_step_ = -1;
}

void Monitor::add(const StepMetrics& step) {
  throughput_.add(step);
  epoch_times_.add(step);
  if (!input_.communicator.is_root()) return;
  {
    const PhaseScope phase(input_.communicator.activity(), Phase::kMetricsWrite);
    if (log_) log_->append(step);
    if (events_) events_->add_scalars(step.step, event_scalars(step));
  }
  latest_ = summary(step);
  progress_->update(step.step, progress_text());
}

std::string Monitor::progress_text() const {
  if (!validation_) return latest_;
  return cat(latest_, latest_.empty() ? "" : ", ", shown_metrics(validation_->task).front().first,
             " ", metric_text(validation_->judged()));
}

void Monitor::add_validation(const ValidationMetrics& metrics, Table classes, Gallery gallery) {
  validation_ = metrics;
  classes_ = std::move(classes);
  gallery_ = std::move(gallery);
  validated_step_ = metrics.step;
  if (log_) log_->append(metrics);
  if (events_) {
    events_->add_scalars(metrics.step, event_scalars(metrics));
    events_->add_images(metrics.step, gallery_);
  }
  std::string text;
  for (const auto& [name, place] : shown_metrics(metrics.task)) {
    text += cat(text.empty() ? " " : ", ", name, " ", metric_text(metrics.values[place]));
  }
  text += cat(", loss ", fixed(total_loss(metrics.task, metrics.losses), 3));
  log_info("epoch ", metrics.epoch, ", step ", metrics.step, ": validation", text);
  progress_->update(metrics.step, progress_text());
}

std::optional<double> Monitor::evaluated_of(std::int64_t step) const {
  if (!validation_ || validated_step_ != step) return std::nullopt;
  return validation_->judged();
}

void Monitor::write_report() {
  if (input_.run_dir == nullptr) return;
  RunReportInput page{.title = input_.title,
                      .total_steps = input_.total_steps,
                      .rank_count = input_.communicator.size(),
                      .options = input_.effective_options,
                      .gallery = gallery_,
                      .classes = classes_};
  as_io_error(
      [&] { write_file_atomically(input_.run_dir->report_path(), run_report_html(page, *log_)); });
}

}  // namespace retina
