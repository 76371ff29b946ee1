// Convolutions in 16 bits by LibTorch's autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "shared/model/precision.h"

namespace retina {

// Returns the type in which convolutions compute: kFloat, kBFloat16 or kHalf.
at::ScalarType type_of(Precision precision);

// Makes convolutions on `device` compute in 16 bits within its life, with kBf16 and kFp16; weights
// stay f32 and are cast once a scope. With kFp32 it does nothing.
class AutocastScope {
 public:
  AutocastScope(Precision precision, c10::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool enabled_;
  c10::DeviceType device_;
};

}  // namespace retina
