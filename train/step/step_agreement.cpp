#include "train/step/step_agreement.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "shared/base/cat.h"

namespace retina {

std::string StepAgreement::problem(Task task, double gradient_norm) const {
  if (!std::isfinite(total_loss(task, figures))) {
    std::string parts;
    for (std::size_t i = 0; i < task_figures(task).size(); ++i) {
      const TaskFigure& figure = task_figures(task)[i];
      if (figure.is_loss) parts += cat(parts.empty() ? "" : ", ", figure.label, " ", figures[i]);
    }
    return cat("the loss is not finite (", parts, ")");
  }
  if (std::isfinite(gradient_norm)) return "";
  return cat("the gradient is not finite (norm ", gradient_norm, ")");
}

StepAgreement agree(const StepAgreement& own, Communicator& communicator) {
  double sums[kMostFigures + 5] = {};
  std::copy(own.figures.begin(), own.figures.end(), sums);
  double* const counts = sums + kMostFigures;
  counts[0] = own.stop ? 1 : 0;
  counts[1] = own.save ? 1 : 0;
  counts[2] = own.told_left_out ? 1 : 0;
  counts[3] = static_cast<double>(own.replaced_images);
  counts[4] = own.found_damage ? 1 : 0;
  communicator.all_reduce(sums, std::size(sums), ElementType::kFloat64, ReduceOp::kSum);
  StepAgreement result{.stop = counts[0] > 0,
                       .save = counts[1] > 0,
                       .told_left_out = counts[2] > 0,
                       .replaced_images = static_cast<std::int64_t>(counts[3]),
                       .found_damage = counts[4] > 0};
  std::copy_n(sums, kMostFigures, result.figures.begin());
  return result;
}

}  // namespace retina
