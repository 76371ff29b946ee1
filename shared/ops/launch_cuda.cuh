// What is around every CUDA kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace retina::kernels {

inline unsigned blocks_for(std::int64_t count, int threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

// nullptr, or the text of the last launch's error.
inline const char* launch_problem() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// IoUs are never negative, so their bit patterns order like their values.
__device__ inline void atomic_larger(float* target, float value) {
  atomicMax(reinterpret_cast<unsigned*>(target), __float_as_uint(value));
}
__device__ inline void atomic_larger(double* target, double value) {
  atomicMax(reinterpret_cast<unsigned long long*>(target),
            static_cast<unsigned long long>(__double_as_longlong(value)));
}

// Neighbouring values, at a multiple of their size in memory, that a thread moves at once.
template <class Stored, int kValues>
struct alignas(sizeof(Stored) * kValues) Pack {
  Stored values[kValues];
};
constexpr int kPackBytes = 16;  // the most that a thread moves at once

// In one store: the compiler makes one of each member where it sees an assignment.
template <class Stored, int kValues>
__device__ void store_pack(const Pack<Stored, kValues>& pack, Stored* place) {
  if constexpr (kValues == 1) {
    *place = pack.values[0];
  } else {
    uint4 words;
    static_assert(sizeof words == sizeof pack && sizeof words == kPackBytes);
    memcpy(&words, &pack, sizeof words);
    __stwb(reinterpret_cast<uint4*>(place), words);
  }
}

inline bool is_aligned_to_packs(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kPackBytes == 0;
}

}  // namespace retina::kernels
