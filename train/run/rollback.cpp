#include "train/run/rollback.h"

#include <iterator>

namespace retina {

void Rollback::leave_out(std::int64_t step) {
  skipped_.insert(step);
  ++returns_;
  made_step_ = false;
}

void Rollback::saved() {
  if (made_step_) returns_ = 0;
  start_.reset();
}

std::int64_t Rollback::skipped_before(std::int64_t step) const {
  return std::distance(skipped_.begin(), skipped_.lower_bound(step));
}

}  // namespace retina
