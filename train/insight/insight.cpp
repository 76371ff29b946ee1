#include "train/insight/insight.h"

#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/evaluation/metrics_text.h"
#include "shared/watch/activity.h"
#include "train/insight/run_report.h"

namespace retina {

Insight::Insight(const InsightInput& input) : input_(input) {}

void Insight::begin(std::int64_t step) {
  if (!input_.communicator.is_root()) return;
  if (input_.run_dir != nullptr) log_.emplace(input_.run_dir->metrics_path(), step);
  if (!progress_) progress_.emplace("training", input_.total_steps, "steps");
  progress_->update(step);
  if (validated_step_ > step) validated_step_ = -1;
}

void Insight::add(const StepMetrics& step) {
  throughput_.add(step);
  books_.add(step);
  if (!input_.communicator.is_root()) return;
  if (log_) {
    const PhaseScope phase(input_.communicator.activity(), Phase::kMetricsWrite);
    log_->append(step);
  }
  std::string detail = summary(step);
  if (validation_) detail += cat(", AP ", metric_text(validation_->stats[kAp]));
  progress_->update(step.step, detail);
}

void Insight::add_validation(std::int64_t step, std::int64_t epoch, const CocoMetrics& metrics) {
  validation_ = metrics;
  validated_step_ = step;
  const auto& stats = metrics.stats;
  if (log_) log_->append(ValidationMetrics{.step = step, .epoch = epoch, .stats = stats});
  log_info("epoch ", epoch, ", step ", step, ": validation AP ", metric_text(stats[kAp]), ", AP50 ",
           metric_text(stats[kAp50]), ", AP75 ", metric_text(stats[kAp75]));
}

std::optional<double> Insight::ap_of(std::int64_t step) const {
  if (!validation_ || validated_step_ != step) return std::nullopt;
  return validation_->stats[kAp];
}

void Insight::write_report(std::vector<Picture> pictures) {
  if (input_.run_dir == nullptr) return;
  RunReportInput page{.title = input_.title,
                      .total_steps = input_.total_steps,
                      .steps_per_epoch = input_.steps_per_epoch,
                      .rank_count = input_.communicator.size(),
                      .options = input_.effective_options,
                      .pictures = std::move(pictures)};
  if (validation_) page.last_validation = &*validation_;
  midway(
      [&] { write_file_atomically(input_.run_dir->report_path(), run_report_html(page, *log_)); });
}

}  // namespace retina
