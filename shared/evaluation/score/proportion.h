// Shares of images, and how far chance may have moved them: 95 % intervals of one share and of the
// difference of two that were counted on the same images. They cover the choice of images, not the
// training's seed.
#pragma once

#include <cstdint>
#include <optional>

namespace retina {

inline constexpr double kNormalQuantile = 1.959963984540054;  // at 97.5 %: for 95 % intervals

// Interval of a value, or of a difference B - A.
struct Interval {
  double low = 0, high = 0;
  bool excludes_zero() const { return low > 0 || high < 0; }
};

// `hits` out of `of` things.
struct Proportion {
  std::int64_t hits = 0, of = 0;

  std::optional<double> value() const;  // unset for no things
  // Returns the score interval of Wilson 1927 ("Probable inference, the law of succession, and
  // statistical inference"): never outside [0, 1], and not empty at 0 or 1. Nothing for no things.
  std::optional<Interval> interval() const;
};

// Counts of the same images classified by A and by B.
struct PairedHits {
  std::int64_t both = 0, only_a = 0, only_b = 0, neither = 0;

  void add(bool a, bool b);
  std::int64_t image_count() const { return both + only_a + only_b + neither; }
  Proportion a() const { return {.hits = both + only_a, .of = image_count()}; }
  Proportion b() const { return {.hits = both + only_b, .of = image_count()}; }

  std::optional<double> difference() const;  // B - A; unset for no images
  // Returns the interval of the difference by Bonett & Price 2012 ("Adjusted Wald confidence
  // interval for a difference of binomial proportions based on paired data"), within [-1, 1].
  // Nothing for no images.
  std::optional<Interval> interval() const;
  // Returns how likely two equally good models differ by as much or more: McNemar 1947 ("Note on
  // the sampling error of the difference between correlated proportions or percentages"),
  // two-sided, as the mid-p of the binomial distribution that Fagerland et al. 2013 advise: 2 (P(X
  // < k) + P(X = k) / 2), k the smaller of `only_a` and `only_b`. 1 if no image distinguishes them.
  double mid_p() const;
};

}  // namespace retina
