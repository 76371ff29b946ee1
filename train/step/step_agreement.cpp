#include "train/step/step_agreement.h"

#include <cmath>
#include <iterator>

#include "shared/base/cat.h"

namespace retina {

std::string StepAgreement::problem(double gradient_norm) const {
  if (!std::isfinite(classification_loss) || !std::isfinite(box_loss)) {
    return cat("the loss is not finite (classification ", classification_loss, ", boxes ", box_loss,
               ")");
  }
  if (std::isfinite(gradient_norm)) return "";
  return cat("the gradient is not finite (norm ", gradient_norm, ")");
}

StepAgreement agree(const StepAgreement& own, Communicator& communicator) {
  double sums[] = {own.classification_loss,       own.box_loss,
                   own.stop ? 1.0 : 0.0,          own.save ? 1.0 : 0.0,
                   own.told_left_out ? 1.0 : 0.0, static_cast<double>(own.replaced_images),
                   own.found_damage ? 1.0 : 0.0};
  communicator.all_reduce(sums, std::size(sums), ElementType::kFloat64, ReduceOp::kSum);
  return {.classification_loss = sums[0],
          .box_loss = sums[1],
          .stop = sums[2] > 0,
          .save = sums[3] > 0,
          .told_left_out = sums[4] > 0,
          .replaced_images = static_cast<std::int64_t>(sums[5]),
          .found_damage = sums[6] > 0};
}

}  // namespace retina
