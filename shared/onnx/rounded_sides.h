// The sizes for which floor(side * scale), with a scale rounded to f64, is one less than the exact
// quotient.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace retina {

// Longest side that a JPEG can have.
inline constexpr std::int64_t kLargestSide = 65535;

// Sizes with a low result. With s = fl(n / d) (n: the wanted side, d: an image's), fl(side * s) is
// q or the f64 before it if q = side * n / d is whole. It is the one before if the rounding of s
// lost more than half a step of q: that depends on d and on the leading digits of q alone, and from
// some digits on it is so for all (RoundedSides.AgreeWithMultiplicationInF64).
struct RoundedSides {
  // Computes the tables. `wanted` are the two sides an image can be brought to, ascending.
  explicit RoundedSides(const std::array<int, 2>& wanted);

  // Indexed by d: the smallest fraction that comes out low for wanted[0]; at kLargestSide + 1 + d
  // for wanted[1].
  std::vector<std::int32_t> first_low;
  // Indexed by q in 0 .. wanted[1]: its leading digits, q times a power of two in (F / 2, F], F a
  // power of two that is at least wanted[1].
  std::vector<std::int32_t> fraction;
};

}  // namespace retina
