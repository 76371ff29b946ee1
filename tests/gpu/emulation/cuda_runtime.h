// The part of CUDA that the kernels of shared/ops use, on the CPU: they include this file in place
// of the toolkit's. A thread of a block is a fiber (grid.h); a kernel that needs more of CUDA gets
// it here. C++17, as nvcc reads the kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/gpu/emulation/grid.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

using retina::emulation::blockDim;
using retina::emulation::blockIdx;
using retina::emulation::dim3;
using retina::emulation::gridDim;
using retina::emulation::threadIdx;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

using cudaStream_t = struct CUstream_st*;
using cudaError_t = const char*;  // what went wrong
constexpr cudaError_t cudaSuccess = nullptr;
inline cudaError_t cudaGetLastError() {
  return retina::emulation::take_error();
}
inline const char* cudaGetErrorString(cudaError_t error) {
  return error;
}

// --- Threads of a block and of a warp ------------------------------------------------------------

#define __syncthreads() ::retina::emulation::wait_for_block({__FILE__, __LINE__})
#define __ballot_sync(mask, holds) ::retina::emulation::ballot(mask, holds, {__FILE__, __LINE__})
#define __shfl_sync(mask, value, lane) \
  ::retina::emulation::shuffle(mask, value, lane, {__FILE__, __LINE__})
#define __shfl_xor_sync(mask, value, lanes) \
  __shfl_sync(mask, value, ::retina::emulation::lane() ^ static_cast<unsigned>(lanes))

// --- Memory --------------------------------------------------------------------------------------

template <class T>
T atomicMax(T* place, T value) {
  return retina::emulation::atomic(place, [value](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* place, T value) {
  return retina::emulation::atomic(place, [value](T old) { return value < old ? value : old; });
}
template <class T>
T atomicAdd(T* place, T value) {
  return retina::emulation::atomic(place, [value](T old) { return old + value; });
}
template <class T>
T __ldg(const T* place) {
  return *place;
}
inline void __stwb(uint4* place, const uint4& value) {
  *place = value;
}

// --- Bits ----------------------------------------------------------------------------------------

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline long long __double_as_longlong(double value) {
  long long bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
