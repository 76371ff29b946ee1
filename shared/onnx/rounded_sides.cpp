#include "shared/onnx/rounded_sides.h"

#include <bit>
#include <cmath>

namespace retina {
namespace {

// Returns the smallest fraction in (full / 2, full] at which the rounded scale gives less; full +
// 1: none.
std::int32_t first_low_fraction(std::int64_t wanted, std::int64_t side, std::int64_t full) {
  int exponent = 0;
  const double scale = static_cast<double>(wanted) / static_cast<double>(side);
  const auto digits = static_cast<std::int64_t>(std::ldexp(std::frexp(scale, &exponent), 53));
  const int shift = 53 - exponent;  // scale = digits / 2^shift
  // The loss by rounding, in units of 1 / (side * 2^shift); an f64 has 53 digits.
  using Wide = __int128;
  const Wide lost = (Wide{wanted} << shift) - Wide{digits} * side;
  if (lost <= 0) return static_cast<std::int32_t>(full + 1);
  // q * (1 - lost / (wanted * 2^shift)) is nearer to the f64 before q than to q when
  // fraction * lost > wanted * full / 2 * 2^(shift - 53).
  Wide bound = Wide{wanted} * (full / 2), step = lost;
  (shift >= 53 ? bound : step) <<= std::abs(shift - 53);
  const Wide first = bound / step + 1;
  return static_cast<std::int32_t>(first > full ? full + 1 : static_cast<std::int64_t>(first));
}

}  // namespace

RoundedSides::RoundedSides(const std::array<int, 2>& wanted) {
  const auto full = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(wanted[1])));
  for (const int one : wanted) {
    first_low.push_back(static_cast<std::int32_t>(full + 1));  // no image is 0 wide
    for (std::int64_t side = 1; side <= kLargestSide; ++side) {
      first_low.push_back(first_low_fraction(one, side, full));
    }
  }
  fraction.push_back(0);
  for (std::int64_t q = 1; q <= wanted[1]; ++q) {
    const auto ceiling = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(q)));
    fraction.push_back(static_cast<std::int32_t>(q * (full / ceiling)));
  }
}

}  // namespace retina
