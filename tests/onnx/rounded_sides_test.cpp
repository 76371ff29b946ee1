#include "shared/onnx/rounded_sides.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shared/numeric/random.h"

namespace retina {
namespace {

// The graph's rule: the whole quotient, less one where its table says so.
std::int64_t by_table(const RoundedSides& table, const std::array<int, 2>& wanted,
                      std::size_t which, std::int64_t side, std::int64_t longer) {
  const std::int64_t product = longer * wanted[which], quotient = product / side;
  const std::int64_t bounded = std::min<std::int64_t>(quotient, wanted[1]);
  const auto from = table.first_low.at(static_cast<std::size_t>(side) + which * (kLargestSide + 1));
  const bool is_low = table.fraction.at(static_cast<std::size_t>(bounded)) >= from;
  return quotient - (quotient * side == product && is_low ? 1 : 0);
}

// resized_size's.
std::int64_t in_f64(int wanted, std::int64_t side, std::int64_t longer) {
  const double scale = static_cast<double>(wanted) / static_cast<double>(side);
  return static_cast<std::int64_t>(std::floor(static_cast<double>(longer) * scale));
}

TEST(RoundedSides, AgreeWithMultiplicationInF64) {
  for (const std::array<int, 2>& wanted :
       {std::array{800, 1333}, {256, 427}, {320, 320}, {640, 1333}, {7, 4096}}) {
    const RoundedSides table(wanted);
    const RandomStream random{.seed = 5, .use = RandomUse::kSynthetic};
    std::int64_t low_count = 0, whole_count = 0;
    for (std::uint64_t trial = 0; trial < 400000; ++trial) {
      const std::size_t which = trial % 2;
      const auto below = [&](std::uint64_t place, std::uint64_t bound) {
        return static_cast<std::int64_t>(random.below(3 * trial + place, bound));
      };
      const std::int64_t side = 1 + below(0, trial % 4 < 2 ? 4000 : kLargestSide);
      // Quotients that are whole decide: multiples of side / gcd(side, wanted).
      const std::int64_t unit = side / std::gcd<std::int64_t>(side, wanted[which]);
      const std::int64_t most = std::max<std::int64_t>(1, wanted[1] * side / wanted[which] / unit);
      const std::int64_t longer = trial % 8 < 6
                                      ? unit * (1 + below(1, static_cast<std::uint64_t>(most)))
                                      : 1 + below(2, kLargestSide);
      if (longer * wanted[which] / side > wanted[1] || longer > kLargestSide) continue;
      const std::int64_t want = in_f64(wanted[which], side, longer);
      ASSERT_EQ(by_table(table, wanted, which, side, longer), want)
          << longer << " * (" << wanted[which] << " / " << side << ")";
      const bool is_whole = longer * wanted[which] % side == 0;
      whole_count += is_whole;
      low_count += is_whole && want * side < longer * wanted[which];
    }
    EXPECT_GT(whole_count, 1000);
    EXPECT_TRUE(low_count > 100 || wanted[0] == 320) << wanted[0] << ": " << low_count;
  }
}

}  // namespace
}  // namespace retina
