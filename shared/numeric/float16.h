// IEEE 754 binary16 ("half": 1 sign, 5 exponent, 10 fraction bits) as its bits: for CPUs and GPUs.
#pragma once

#include <cstdint>

#include "shared/numeric/bfloat16.h"
#include "shared/numeric/host_device.h"

namespace retina {

// Converts exactly; NaNs stay NaNs. A GPU has an instruction for it.
RETINA_HOST_DEVICE float float_from_float16(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  // Exponent biases: 15 and 127. Infinity and NaN keep their fraction.
  const std::uint32_t shifted = (exponent == 0x1fu ? 0xffu : exponent + 112u) << 23;
  const std::uint32_t normal = shifted | (fraction << 13);
  // A subnormal is fraction * 2^-24, which f32 holds as a normal number: 2^-24 is 0x33800000.
  const std::uint32_t subnormal =
      bits_of_float(static_cast<float>(fraction) * float_of_bits(0x33800000u));
  return float_of_bits(sign | (exponent == 0 ? subnormal : normal));
#endif
}

// Rounds to nearest, ties to even; keeps subnormals; from 65520 on (halfway past 65504, the
// largest) gives infinity. NaNs stay NaNs.
RETINA_HOST_DEVICE std::uint16_t float16_from_float(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t fraction = (magnitude >> 13) & 0x3ffu;
  const std::uint32_t nan = 0x7c00u | fraction | (fraction == 0 ? 0x200u : 0u);
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14: in [0.5, 1) f32 has steps of 2^-24, those of half's subnormals; the addition
  // rounds.
  const std::uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  if (magnitude >= 0x477ff000u) result = 0x7c00u;
  if (magnitude > 0x7f800000u) result = nan;
  return static_cast<std::uint16_t>(sign | result);
#endif
}

}  // namespace retina
