// An interval of a value, or of a difference B - A.
#pragma once

namespace retina {

inline constexpr double kNormalQuantile = 1.959963984540054;  // of 97.5 %: for 95 % intervals

struct Interval {
  double low = 0, high = 0;
  bool excludes_zero() const { return low > 0 || high < 0; }
};

}  // namespace retina
