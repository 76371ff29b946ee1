// The two 16-bit floats of the wire, as their bits: IEEE 754 binary16 ("half": 1 sign, 5 exponent,
// 10 fraction bits) and bfloat16 (base/bfloat16.h). To f32 every value is exact; from
// f32 rounds to nearest, ties to even, overflows to infinity, and keeps subnormals. NaNs stay NaNs.
#pragma once

#include <bit>
#include <cstdint>

#include "shared/base/bfloat16.h"  // IWYU pragma: export

namespace retina {

inline float float_from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  // Exponent biases: 15 and 127. Infinity and NaN keep their fraction.
  const std::uint32_t shifted = (exponent == 0x1fu ? 0xffu : exponent + 112u) << 23;
  const std::uint32_t normal = shifted | (fraction << 13);
  // A subnormal is fraction * 2^-24, which f32 holds as a normal number.
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(fraction)) * 0x1p-24f);
  return std::bit_cast<float>(sign | (exponent == 0 ? subnormal : normal));
}

inline std::uint16_t float16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t fraction = (magnitude >> 13) & 0x3ffu;
  const std::uint32_t nan = 0x7c00u | fraction | (fraction == 0 ? 0x200u : 0u);
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14: in [0.5, 1) f32 has steps of 2^-24, those of half's subnormals; the addition
  // rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  if (magnitude >= 0x477ff000u) result = 0x7c00u;  // 65520 = halfway past 65504: to infinity
  if (magnitude > 0x7f800000u) result = nan;
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace retina
