#include "train/step_pipeline.h"

#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/comm/activity.h"

namespace retina {

std::string problem_of(const StepMetrics& step) {
  if (!std::isfinite(step.loss())) {
    std::string parts;
    for (std::size_t i = 0; i < task_metrics(step.task).size(); ++i) {
      const TaskMetric& metric = task_metrics(step.task)[i];
      if (metric.is_loss) {
        parts += cat(parts.empty() ? "" : ", ", metric.label, " ", step.values[i]);
      }
    }
    return cat("the loss is not finite (", parts, ")");
  }
  // The next step has a smaller loss scale.
  if (step.made_update() || step.loss_scale > kLeastLossScale) return "";
  return cat("the gradient is not finite (norm ", step.gradient_norm, ")",
             step.loss_scale > 0 ? cat(", with a loss scale of ", shortest(step.loss_scale)) : "");
}

StepPipeline::Agreement StepPipeline::agree(const StepEvents& own, bool with_loss) {
  Sums sums = {.events = own};
  if (with_loss) {
    const StepSums made = replica_.take_metrics();  // waits for the device
    StepMetrics& oldest = under_way_.front().metrics;
    oldest.gradient_norm = made.gradient_norm;
    oldest.loss_scale = made.loss_scale;
    oldest.parts = made.parts;
    sums.loss = made.of_task;
  }
  const PhaseScope phase(communicator_.activity(), Phase::kReduce);
  Stopwatch wait;
  communicator_.all_reduce(&sums, sizeof sums / sizeof(double), ElementType::kFloat64,
                           ReduceOp::kSum);
  return {.all = sums, .wait_ms = wait.lap_ms()};
}

RetiredStep StepPipeline::take_oldest(const TaskMetrics& loss) {
  RetiredStep step{.metrics = under_way_.front().metrics, .problem = {}};
  // The steps' times add up to the time that passes: the time before the previous step's end counts
  // as that step's.
  const double begun = std::max(under_way_.front().begun_seconds, retired_seconds_);
  retired_seconds_ = now_seconds();
  under_way_.pop_front();
  step.metrics.step_ms = (retired_seconds_ - begun) * 1e3;
  step.metrics.images_per_second =
      static_cast<double>(step.metrics.images) / (retired_seconds_ - begun);
  step.metrics.values = loss;
  step.problem = problem_of(step.metrics);
  return step;
}

StepPipeline::Launched StepPipeline::launch(const StepMetrics& step, const StepEvents& own) {
  under_way_.push_back({.metrics = step, .begun_seconds = begun_seconds_});
  const bool is_full = under_way_.size() > depth_;
  const auto [all, wait_ms] = agree(own, is_full);
  StepMetrics& newest = under_way_.back().metrics;
  newest.exposed_comm_ms += wait_ms;
  newest.replaced_images = static_cast<std::int64_t>(all.events.replaced_images);
  Launched launched{.events = all.events, .oldest = {}};
  if (is_full) launched.oldest = take_oldest(all.loss);
  return launched;
}

std::optional<RetiredStep> StepPipeline::retire() {
  if (under_way_.empty()) return std::nullopt;
  return take_oldest(agree({}, true).all.loss);
}

}  // namespace retina
