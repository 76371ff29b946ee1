// Kernels with a fault each, and one that uses what there is: emulation_test.cpp.
#include "tests/gpu/emulation/faulty_kernels.h"

#include <cuda_runtime.h>

namespace retina::emulation {
namespace {

constexpr int kThreads = 64;

// out[i] = the next thread's number, the last one's the first's.
__global__ void rotate(Fault fault, float* out) {
  __shared__ float numbers[kThreads];
  const unsigned i = threadIdx.x;
  if (fault == Fault::kEarlyEnd && i == 5) return;
  if (fault != Fault::kUnwritten || i != 5) numbers[i] = static_cast<float>(i);
  if (fault == Fault::kTwoBarriers && i == 5) {
    __syncthreads();
  } else if (fault != Fault::kNoBarrier) {
    __syncthreads();
  }
  const unsigned next = (i + 1) % kThreads;
  const unsigned block = fault == Fault::kBlocksMeet ? 0 : blockIdx.x;
  const unsigned beyond = fault == Fault::kPastEnd && blockIdx.x == 1 && i == kThreads - 1 ? 1 : 0;
  float* const element = &out[block * kThreads + i + beyond];
  *element = fault == Fault::kUnwrittenOutput && i == 5 ? *element : numbers[next];
}

// counts[0] += the lanes of each warp, counts[1] the same without atomics.
__global__ void count(Fault fault, unsigned* counts) {
  unsigned lanes = 1;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    if (fault == Fault::kLoneLane && threadIdx.x == 7 && distance == 4) return;
    lanes += __shfl_xor_sync(0xFFFFFFFFU, lanes, distance);
  }
  if (__ballot_sync(0xFFFFFFFFU, lanes == 32) != 0xFFFFFFFFU) return;
  if (threadIdx.x % 32 != 0) return;
  if (fault == Fault::kNoAtomic) {
    counts[0] += lanes;
  } else {
    atomicAdd(counts, lanes);
  }
}

// Reversed in dynamic shared memory.
__global__ void reverse(const float* in, float* out) {
  extern __shared__ float values[];
  values[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

const char* rotate_on(unsigned block_count, Fault fault, float* out) {
  rotate<<<block_count, kThreads>>>(fault, out);
  return cudaGetErrorString(cudaGetLastError());
}
const char* count_on(unsigned block_count, Fault fault, unsigned* counts) {
  count<<<block_count, kThreads>>>(fault, counts);
  return cudaGetErrorString(cudaGetLastError());
}
const char* reverse_block(unsigned thread_count, const float* in, float* out) {
  reverse<<<1, thread_count, thread_count * sizeof(float)>>>(in, out);
  return cudaGetErrorString(cudaGetLastError());
}

}  // namespace retina::emulation
