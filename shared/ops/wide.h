// Loops for vector units.
#pragma once

#include <cstdint>

// Before a function: built for AVX2 too, chosen when the program starts. Without fused
// multiply-adds the bits are the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RETINA_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define RETINA_WIDE
#endif

namespace retina::kernels {

// Partial results that a loop keeps side by side: a compiler may not reorder a single one.
constexpr std::int64_t kLanes = 8;

}  // namespace retina::kernels
