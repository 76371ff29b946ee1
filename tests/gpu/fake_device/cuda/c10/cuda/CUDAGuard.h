// As CUDAStream.h beside it.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include "tests/gpu/fake_device/cuda/c10/cuda/CUDAStream.h"

namespace c10::cuda {

using CUDAGuard = c10::DeviceGuard;

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(const CUDAStream& stream) : guard_(stream.unwrap()) {}

 private:
  c10::StreamGuard guard_;
};

}  // namespace c10::cuda
