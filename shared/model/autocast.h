// bfloat16 convolutions by LibTorch's autocast.
#pragma once

#include <c10/core/DeviceType.h>

#include "shared/model/precision.h"

namespace retina {

// With kBf16, convolutions on `device` compute in bfloat16 within its life; weights stay f32 and
// are cast once a scope. With kFp32 it does nothing.
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
