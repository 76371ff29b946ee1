// bfloat16, the upper half of a binary32, as its bits: for CPUs and GPUs.
#pragma once

#include <cstdint>
#include <cstring>

#include "shared/numeric/host_device.h"

namespace retina {

RETINA_HOST_DEVICE std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
RETINA_HOST_DEVICE float float_of_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Converts exactly.
RETINA_HOST_DEVICE float float_from_bfloat16(std::uint16_t bits) {
  return float_of_bits(static_cast<std::uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; overflows to infinity. NaNs stay NaNs.
RETINA_HOST_DEVICE std::uint16_t bfloat16_from_float(float value) {
  const std::uint32_t bits = bits_of_float(value);
  // A NaN whose fraction lives in the lower half only must not become infinity.
  const std::uint32_t nan = (bits >> 16) | ((bits & 0x007f0000u) == 0 ? 0x0040u : 0u);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

}  // namespace retina
