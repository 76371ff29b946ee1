// Convolutions in 16 bit by LibTorch's autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "shared/model/precision.h"

namespace retina {

// What convolutions take: kFloat, kBFloat16 or kHalf.
at::ScalarType type_of(Precision precision);

// With kBf16 and kFp16, convolutions on `device` take that type within its life; weights stay f32
// and are cast once a scope. With kFp32 it does nothing.
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
