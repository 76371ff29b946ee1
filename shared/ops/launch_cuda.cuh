// What is around every CUDA kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace retina::kernels {

inline unsigned blocks_for(std::int64_t count, int threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

// nullptr, or the text of the last launch's error.
inline const char* launch_problem() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace retina::kernels
