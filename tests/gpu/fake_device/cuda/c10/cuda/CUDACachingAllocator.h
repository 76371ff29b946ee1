// As ATen/cuda/CUDAGraph.h beside it.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "tests/gpu/fake_device/graphs.h"

namespace c10::cuda::CUDACachingAllocator {

inline void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) {
  retina::fake_device::end_allocation();
}
inline void releasePool(c10::DeviceIndex, c10::MempoolId_t) {}

}  // namespace c10::cuda::CUDACachingAllocator
