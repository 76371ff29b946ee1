#include "train/reduce/wire.h"

#include <cmath>

#include "shared/base/error.h"
#include "shared/comm/element_loops.h"

namespace retina {

WireSum::WireSum(Communicator& communicator, const WireOptions& options)
    : communicator_(communicator),
      options_(options),
      scale_(options.type == ElementType::kFloat16 ? kFloat16WireScale : 1) {
  RETINA_CHECK(options.type == ElementType::kFloat32 || element_size_bytes(options.type) == 2,
               element_name(options.type));
}

void WireSum::reduce(void* data, std::size_t count, ElementType type) {
  if (options_.ordered) {
    communicator_.all_reduce_ordered(data, count, type);
  } else {
    communicator_.all_reduce(data, count, type, ReduceOp::kSum);
  }
}

void WireSum::sum(double* values, std::size_t count, const std::string& name) {
  communicator_.label(name);
  reduce(values, count, ElementType::kFloat64);
}

void WireSum::sum(float* values, std::size_t count, const std::string& name) {
  communicator_.label(name);
  if (options_.type == ElementType::kFloat32) return reduce(values, count, ElementType::kFloat32);
  wire_.resize(count);
  narrow(values, count, options_.type, scale_, wire_.data());
  reduce(wire_.data(), count, options_.type);
  if (all_finite(wire_.data(), count, options_.type)) {
    widen(wire_.data(), count, options_.type, 1 / scale_, values);
  } else {
    sum_again(values, count, name);
  }
}

void WireSum::sum_again(float* values, std::size_t count, const std::string& name) {
  communicator_.label(cat(name, " in fp32"));
  reduce(values, count, ElementType::kFloat32);
  // The others keep their 16-bit sum: no element's bits depend on its neighbours in the call.
  bool helped = false;  // false where the gradient itself is infinite or NaN
  for (std::size_t i = 0; i < count; ++i) {
    if (is_finite(wire_[i], options_.type)) {
      widen(&wire_[i], 1, options_.type, 1 / scale_, &values[i]);
    } else {
      helped = helped || std::isfinite(values[i]);
    }
  }
  if (helped) ++repeated_count_;
}

}  // namespace retina
