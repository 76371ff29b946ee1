#include "shared/model/autocast.h"

#include <ATen/autocast_mode.h>

namespace retina {

at::ScalarType type_of(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
    default:
      return at::kFloat;
  }
}

AutocastScope::AutocastScope(Precision precision, c10::DeviceType device)
    : enabled_(precision != Precision::kFp32), device_(device) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, type_of(precision));
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

}  // namespace retina
