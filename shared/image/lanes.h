// Four f32 in one register of any x86-64 or AArch64 (GCC's and clang's vector extension). Each lane
// computes the same as plain f32: the build forbids contraction to fused multiply-adds.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

namespace retina {

using Lanes = float __attribute__((vector_size(16)));
inline constexpr std::size_t kLanes = 4;

inline std::size_t whole_lanes(int count) {
  return (static_cast<std::size_t>(count) + kLanes - 1) / kLanes * kLanes;
}

inline Lanes load(const float* values) {
  Lanes lanes;
  std::memcpy(&lanes, values, sizeof lanes);
  return lanes;
}

inline void store(const Lanes& lanes, float* out) {
  std::memcpy(out, &lanes, sizeof lanes);
}

struct Pixel {
  Lanes rgb;  // the fourth lane is unused
};

// Stores four pixels as four values of each channel, `plane_stride` floats apart.
inline void store_planes(const std::array<Lanes, 4>& pixels, float* out, std::size_t plane_stride) {
  const auto& [a, b, c, d] = pixels;
  const Lanes red_green_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Lanes red_green_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Lanes blue_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Lanes blue_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(red_green_ab, red_green_cd, 0, 1, 4, 5), out);
  store(__builtin_shufflevector(red_green_ab, red_green_cd, 2, 3, 6, 7), out + plane_stride);
  store(__builtin_shufflevector(blue_ab, blue_cd, 0, 1, 4, 5), out + 2 * plane_stride);
}

}  // namespace retina
