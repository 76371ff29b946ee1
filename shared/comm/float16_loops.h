// Loops over 16-bit floats (float16.h), as fast as the machine's vectors allow. `type` is kFloat16
// or kBFloat16. Same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/comm/communicator.h"

namespace retina {

// out[i] = in[i] · scale, rounded to nearest even.
void narrow(const float* in, std::size_t count, ElementType type, float scale, std::uint16_t* out);

// out[i] = in[i] · scale.
void widen(const std::uint16_t* in, std::size_t count, ElementType type, float scale, float* out);

// both[i] = in[i] + both[i], added in f32 and rounded.
void add(const std::uint16_t* in, std::uint16_t* both, std::size_t count, ElementType type);

// False when any value is infinite or not a number.
bool all_finite(const std::uint16_t* in, std::size_t count, ElementType type);
bool is_finite(std::uint16_t bits, ElementType type);

}  // namespace retina
