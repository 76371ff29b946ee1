#include "train/schedule/plateau.h"

namespace retina {

bool Plateau::observe(double value) {
  const double gain =
      options_.higher_is_better ? value - state_.best.value_or(0) : state_.best.value_or(0) - value;
  const bool first = !state_.best && value == value;
  if (first || gain > options_.min_delta) {
    state_ = {.best = value, .waited = 0};
    return false;
  }
  if (++state_.waited < options_.patience) return false;
  state_.waited = 0;
  return true;
}

}  // namespace retina
