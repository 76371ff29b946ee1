#include "shared/numeric/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace retina {
namespace {

constexpr int kPatterns = 65536;

// A format by its definition, not by bit tricks: what the conversions are compared with.
struct Format {
  float (*load)(std::uint16_t);
  std::uint16_t (*store)(float);
  int exponent_bits, fraction_bits;
};
constexpr Format kHalf{float_from_float16, float16_from_float, 5, 10};
constexpr Format kBrain{float_from_bfloat16, bfloat16_from_float, 8, 7};

bool is_nan(const Format& format, int pattern) {
  const int exponent_mask = (1 << format.exponent_bits) - 1;
  return ((pattern >> format.fraction_bits) & exponent_mask) == exponent_mask &&
         (pattern & ((1 << format.fraction_bits) - 1)) != 0;
}

double by_definition(const Format& format, int pattern) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = (pattern >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const int fraction = pattern & ((1 << format.fraction_bits) - 1);
  const double sign = (pattern & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const int unit = -bias - format.fraction_bits + 1;
  if (exponent == 0) return sign * std::ldexp(fraction, unit);
  return sign * std::ldexp(fraction + (1 << format.fraction_bits), unit + exponent - 1);
}

void expect_every_pattern_keeps_its_value(const Format& format) {
  for (int pattern = 0; pattern < kPatterns; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float value = format.load(bits);
    if (is_nan(format, pattern)) {
      ASSERT_TRUE(std::isnan(value)) << pattern;
    } else {
      ASSERT_EQ(value, by_definition(format, pattern)) << pattern;
      ASSERT_EQ(std::signbit(value), (pattern & 0x8000) != 0) << pattern;
    }
    ASSERT_EQ(format.store(value), bits) << "there and back, NaNs with their fraction";
  }
}

// Between two neighbours: below the middle the lower, above it the upper, at it the even one.
void expect_every_gap_rounds_to_nearest_even(const Format& format) {
  const int infinity = ((1 << format.exponent_bits) - 1) << format.fraction_bits;
  for (int lower = 0; lower < infinity; ++lower) {
    const int upper = lower + 1;
    const double low = by_definition(format, lower);
    // Above the largest number the next would be where infinity is.
    const double high = upper == infinity ? 2 * low - by_definition(format, lower - 1)
                                          : by_definition(format, upper);
    // Exact in f32, which has more than one bit more (bf16's subnormals are f32's).
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const float far = std::numeric_limits<float>::infinity();
    for (const int sign : {0, 0x8000}) {
      const float direction = sign == 0 ? 1.0f : -1.0f;
      const auto stored = [&](float value) { return int{format.store(direction * value)}; };
      ASSERT_EQ(stored(middle), (lower % 2 == 0 ? lower : upper) + sign) << lower;
      ASSERT_EQ(stored(std::nextafterf(middle, 0)), lower + sign) << lower;
      ASSERT_EQ(stored(std::nextafterf(middle, far)), upper + sign) << lower;
    }
  }
}

TEST(Float16, EveryPatternKeepsItsValueAndEveryGapRoundsToNearestEven) {
  for (const Format& format : {kHalf, kBrain}) {
    expect_every_pattern_keeps_its_value(format);
    expect_every_gap_rounds_to_nearest_even(format);
  }
}

TEST(Float16, LargeValuesBecomeInfinityAndNansStayNans) {
  for (const Format& format : {kHalf, kBrain}) {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(format.load(format.store(std::numeric_limits<float>::max())), infinity);
    EXPECT_EQ(format.load(format.store(-infinity)), -infinity);
    // Fractions whose upper bits are zero too.
    for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7f801fffu, 0x7fffffffu}) {
      EXPECT_TRUE(std::isnan(format.load(format.store(std::bit_cast<float>(bits))))) << bits;
    }
  }
}

}  // namespace
}  // namespace retina
