// Sums in a fixed order on CUDA, for the loss kernels: blockIdx.x is a share of an image's anchors,
// blockIdx.y the image.
#pragma once

#include <cstdint>

namespace retina::kernels {

constexpr int kThreads = 256;

// The block's sum of `value`, valid in thread 0; a tree, so the same bits every time.
__device__ inline double block_sum(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

// sums[image] = the sum of its partials; one block of kThreads threads an image.
template <class T>
__global__ void sum_partials(const double* partials, int partial_count, T* sums) {
  const double* row = partials + static_cast<std::int64_t>(blockIdx.x) * partial_count;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < partial_count; i += kThreads) sum += row[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = static_cast<T>(sum);
}

}  // namespace retina::kernels
