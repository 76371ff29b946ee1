#include "shared/evaluation/score/proportion.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace retina {

std::optional<double> Proportion::value() const {
  if (of == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(of);
}

std::optional<Interval> Proportion::interval() const {
  if (of == 0) return std::nullopt;
  const auto count = static_cast<double>(of);
  const double share = static_cast<double>(hits) / count, z2 = kNormalQuantile * kNormalQuantile;
  const double centre = (share + z2 / (2 * count)) / (1 + z2 / count);
  const double half = kNormalQuantile *
                      std::sqrt(share * (1 - share) / count + z2 / (4 * count * count)) /
                      (1 + z2 / count);
  // The ends are exactly 0 and 1 there; rounding would leave 1e-18.
  return Interval{.low = hits == 0 ? 0 : centre - half, .high = hits == of ? 1 : centre + half};
}

void PairedHits::add(bool a, bool b) {
  ++(a ? (b ? both : only_a) : (b ? only_b : neither));
}

std::optional<double> PairedHits::difference() const {
  if (image_count() == 0) return std::nullopt;
  return static_cast<double>(only_b - only_a) / static_cast<double>(image_count());
}

std::optional<Interval> PairedHits::interval() const {
  if (image_count() == 0) return std::nullopt;
  const double count = static_cast<double>(image_count()) + 2;
  const double b = (static_cast<double>(only_b) + 1) / count;
  const double a = (static_cast<double>(only_a) + 1) / count;
  const double half = kNormalQuantile * std::sqrt((a + b - (b - a) * (b - a)) / count);
  return Interval{.low = std::max(-1.0, b - a - half), .high = std::min(1.0, b - a + half)};
}

double PairedHits::mid_p() const {
  const auto trials = static_cast<double>(only_a + only_b);
  const auto fewer = static_cast<double>(std::min(only_a, only_b));
  if (trials == 0) return 1;
  double term = std::exp(std::lgamma(trials + 1) - std::lgamma(fewer + 1) -
                         std::lgamma(trials - fewer + 1) - trials * std::numbers::ln2);
  double sum = term / 2;
  for (double x = fewer; x > 0 && term > 0; --x) {
    term *= x / (trials - x + 1);  // P(X = x - 1) from P(X = x)
    sum += term;
  }
  return std::min(1.0, 2 * sum);
}

}  // namespace retina
