// Parts that CUDA kernels share: launches, atomics, loads and stores of packs of values.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "shared/ops/formulas.h"

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

// Values that a thread takes: `count` packs, the first at `place`, `step` apart.
struct Walk {
  std::int64_t place, step;  // in values
  int count;                 // 0: nothing
};

// Calls body(place, packs of the sources there) for the packs of a walk. The next kAhead are loaded
// before the first of them is used; past the end, the last one again: no branch is between the
// loads.
template <int kValues, int kAhead, class Stored, int kSources, class Body>
__device__ void for_each_pack(const Walk& walk, const Stored* const (&sources)[kSources],
                              const Body& body) {
  using Values = Pack<Stored, kValues>;
  for (int i = 0; i < walk.count; i += kAhead) {
    Values packs[kAhead][kSources];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t place = walk.place + smaller(i + k, walk.count - 1) * walk.step;
#pragma unroll
      for (int s = 0; s < kSources; ++s) {
        packs[k][s] = *reinterpret_cast<const Values*>(sources[s] + place);
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (i + k < walk.count) body(walk.place + (i + k) * walk.step, packs[k]);
    }
  }
}

// Stores value(v, packs of the sources there) for the elements v of each pack of a walk.
template <int kValues, int kAhead, class Stored, int kSources, class Value>
__device__ void map_packs(const Walk& walk, const Stored* const (&sources)[kSources], Stored* out,
                          const Value& value) {
  for_each_pack<kValues, kAhead>(
      walk, sources, [&](std::int64_t place, const Pack<Stored, kValues>(&packs)[kSources]) {
        Pack<Stored, kValues> results;
#pragma unroll
        for (int v = 0; v < kValues; ++v) store(value(v, packs), results.values + v);
        store_pack(results, out + place);
      });
}

inline bool is_aligned_to_packs(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kPackBytes == 0;
}

}  // namespace retina::kernels
