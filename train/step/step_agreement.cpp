#include "train/step/step_agreement.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "shared/base/cat.h"

namespace retina {

std::string StepAgreement::problem(Task task, double gradient_norm) const {
  if (!std::isfinite(total_loss(task, metrics))) {
    std::string parts;
    for (std::size_t i = 0; i < task_metrics(task).size(); ++i) {
      const TaskMetric& metric = task_metrics(task)[i];
      if (metric.is_loss) parts += cat(parts.empty() ? "" : ", ", metric.label, " ", metrics[i]);
    }
    return cat("the loss is not finite (", parts, ")");
  }
  if (std::isfinite(gradient_norm)) return "";
  return cat("the gradient is not finite (norm ", gradient_norm, ")");
}

StepAgreement agree(const StepAgreement& own, Communicator& communicator) {
  double sums[kMostMetrics + 5] = {};
  std::copy(own.metrics.begin(), own.metrics.end(), sums);
  double* const counts = sums + kMostMetrics;
  counts[0] = own.stop ? 1 : 0;
  counts[1] = own.save ? 1 : 0;
  counts[2] = own.warned_of_ignored ? 1 : 0;
  counts[3] = static_cast<double>(own.replaced_images);
  counts[4] = own.found_damage ? 1 : 0;
  communicator.all_reduce(sums, std::size(sums), ElementType::kFloat64, ReduceOp::kSum);
  StepAgreement result{.stop = counts[0] > 0,
                       .save = counts[1] > 0,
                       .warned_of_ignored = counts[2] > 0,
                       .replaced_images = static_cast<std::int64_t>(counts[3]),
                       .found_damage = counts[4] > 0};
  std::copy_n(sums, kMostMetrics, result.metrics.begin());
  return result;
}

}  // namespace retina
