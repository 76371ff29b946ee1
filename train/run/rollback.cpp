#include "train/run/rollback.h"

#include <iterator>

namespace retina {

void Rollback::leave_out(std::int64_t step) {
  left_out_.insert(step);
  ++returns_;
  made_step_ = false;
}

void Rollback::saved() {
  if (made_step_) returns_ = 0;
  start_.reset();
}

std::int64_t Rollback::left_out_before(std::int64_t step) const {
  return std::distance(left_out_.begin(), left_out_.lower_bound(step));
}

}  // namespace retina
