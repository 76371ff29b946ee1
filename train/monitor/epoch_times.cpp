#include "train/monitor/epoch_times.h"

#include <utility>

#include "shared/base/log.h"

namespace retina {

EpochPoint epoch_point(std::int64_t step, std::int64_t steps_per_epoch, const Rollback& rollback) {
  if (step % steps_per_epoch != 0) return {.step = step, .epoch = step / steps_per_epoch + 1};
  const std::int64_t skipped =
      rollback.skipped_before(step) - rollback.skipped_before(step - steps_per_epoch);
  return {.step = step, .epoch = step / steps_per_epoch, .update_count = steps_per_epoch - skipped};
}

void EpochTimes::add(const StepMetrics& metrics) {
  ledger_.add({.images = metrics.images_own,
               .step_ms = metrics.step_ms,
               .data_wait_ms = metrics.data_wait_ms,
               .comm_wait_ms = metrics.exposed_comm_ms});
}

void EpochTimes::close(Communicator& communicator, const EpochPoint& point, MetricsLog* log) {
  EpochMetrics metrics{
      .step = point.step, .epoch = point.epoch, .step_count = ledger_.step_count()};
  if (metrics.step_count > 0) metrics.rank_times = ledger_.gather(communicator);
  if (const auto straggler = find_straggler(metrics.rank_times, metrics.step_count)) {
    log_warning("epoch ", metrics.epoch, ": ", straggler_text(*straggler));
  }
  if (log != nullptr) log->append(std::move(metrics), point.update_count);
}

}  // namespace retina
