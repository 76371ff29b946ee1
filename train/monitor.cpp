#include "train/monitor.h"

#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/comm/activity.h"
#include "shared/evaluation/score/metrics_text.h"
#include "train/report/run_report.h"

namespace retina {

EpochPoint epoch_point(std::int64_t step, std::int64_t steps_per_epoch, const Rollback& rollback) {
  if (step % steps_per_epoch != 0) return {.step = step, .epoch = step / steps_per_epoch + 1};
  const std::int64_t skipped =
      rollback.skipped_before(step) - rollback.skipped_before(step - steps_per_epoch);
  return {.step = step, .epoch = step / steps_per_epoch, .update_count = steps_per_epoch - skipped};
}

Monitor::Monitor(const MonitorInput& input) : input_(input) {}

void Monitor::begin(std::int64_t step) {
  if (!input_.communicator.is_root()) return;
  if (input_.run_dir != nullptr) log_.emplace(input_.run_dir->metrics_path(), step);
  if (!input_.tensorboard.empty()) events_.emplace(input_.tensorboard, step);
  if (!progress_) progress_.emplace("training", input_.total_steps, "steps");
  progress_->update(step);
  if (validated_step_ > step) validated_step_ = -1;
}

void Monitor::begin_reduction(const GradientBuckets& buckets) {
  if (!input_.communicator.is_root() || buckets.ranks() == 1) return;
  log_info(describe(buckets.plan(), buckets.wire()));
  if (input_.run_dir != nullptr) {
    input_.run_dir->write_buckets(
        to_json(buckets.size_bytes(), buckets.plan(), buckets.wire(), buckets.ranks()));
  }
}

void Monitor::add_reduction(std::int64_t step, const GradientBuckets& buckets) {
  if (!input_.communicator.is_root()) return;
  if (buckets.repeated_count() > 0 && !std::exchange(has_reported_repeat_, true)) {
    log_warning("step ", step, ": a gradient overflowed --wire ",
                word_of(kWireTypes, buckets.wire().type),
                "; its bucket is resent in fp32, as any later one will be; --wire bf16 has the ",
                "range of fp32");
  }
}

void Monitor::add(const StepMetrics& step) {
  const RankStep own = {.images = step.images_own,
                        .step_ms = step.step_ms,
                        .data_wait_ms = step.data_wait_ms,
                        .comm_wait_ms = step.exposed_comm_ms};
  throughput_.add(step.images, own);
  ledger_.add(own);
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

void Monitor::close_epoch(const EpochPoint& point) {
  EpochMetrics metrics{
      .step = point.step, .epoch = point.epoch, .step_count = ledger_.step_count()};
  if (metrics.step_count > 0) metrics.rank_times = ledger_.gather(input_.communicator);
  if (const auto straggler = find_straggler(metrics.rank_times, metrics.step_count)) {
    log_warning("epoch ", metrics.epoch, ": ", straggler_text(*straggler));
  }
  if (log_) log_->append(std::move(metrics), point.update_count);
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
  const ShownMetrics& shown = shown_metrics(metrics.task);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    text += cat(i == 0 ? " " : ", ", shown[i].first, " ", metric_text(metrics.values[i]));
  }
  text += cat(", loss ", fixed(total_loss(metrics.task, metrics.losses), 3));
  log_info("epoch ", metrics.epoch, ", step ", metrics.step, ": validation", text);
  progress_->update(metrics.step, progress_text());
}

std::optional<double> Monitor::evaluated_of(std::int64_t step) const {
  if (!validation_ || validated_step_ != step) return std::nullopt;
  return validation_->judged();
}

std::string Monitor::conclude(VerdictInput facts) {
  if (log_) facts.course = course_of(*log_, input_.total_steps);
  return verdict_ = verdict(facts);
}

void Monitor::write_report() {
  if (input_.run_dir == nullptr) return;
  RunReportInput page{.title = input_.title,
                      .total_steps = input_.total_steps,
                      .rank_count = input_.communicator.size(),
                      .verdict = verdict_,
                      .options = input_.effective_options,
                      .gallery = gallery_,
                      .classes = classes_};
  as_io_error(
      [&] { write_file_atomically(input_.run_dir->report_path(), run_report_html(page, *log_)); });
}

}  // namespace retina
