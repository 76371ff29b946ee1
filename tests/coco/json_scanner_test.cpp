#include "shared/coco/json_scanner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/random.h"

namespace retina {
namespace {

// Equal to strtod, the sign of zero included.
testing::AssertionResult is_read_as_strtod_does(const std::string& text) {
  JsonScanner scanner(text);
  double number = 0;
  if (!scanner.take_number(number)) return testing::AssertionFailure() << text << " is refused";
  const double wanted = std::strtod(text.c_str(), nullptr);
  if (number == wanted && std::signbit(number) == std::signbit(wanted)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << text << " is read as " << number << " " << number - wanted;
}

TEST(JsonScanner, NumbersOfAnyLengthAreRoundedAsByStrtod) {
  const RandomStream random{.seed = 7};
  std::uint64_t place = 0;
  const auto below = [&](std::uint64_t bound) { return random.bits(place++) % bound; };
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t whole_count = 1 + below(20), decimal_count = below(21);
    std::string text = below(3) == 0 ? "-" : "";
    if (whole_count == 1) {
      text += cat(below(10));
    } else {
      text += cat(1 + below(9));
      for (std::uint64_t k = 1; k < whole_count; ++k) text += cat(below(10));
    }
    if (decimal_count > 0) text += ".";
    for (std::uint64_t k = 0; k < decimal_count; ++k) text += cat(below(10));
    ASSERT_TRUE(is_read_as_strtod_does(text));
  }
}

// Halfway between two f64, and the shortest step to either side of it.
TEST(JsonScanner, NumbersHalfwayBetweenTwoAreRoundedAsByStrtod) {
  const RandomStream random{.seed = 8};
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint64_t half = ((random.bits(i) >> 11) | std::uint64_t{1} << 53) | 1;  // 54 bits
    for (const std::uint64_t number : {half - 1, half, half + 1}) {
      ASSERT_TRUE(is_read_as_strtod_does(cat(number)));
      ASSERT_TRUE(is_read_as_strtod_does(cat(number, ".0")));
      ASSERT_TRUE(is_read_as_strtod_does(cat(number, ".00")));
    }
    // half / 4 = whole + (half % 4) * .25
    const std::string quarters = cat(half / 4, half % 4 == 1 ? ".25" : ".75");
    ASSERT_TRUE(is_read_as_strtod_does(quarters));
  }
}

TEST(JsonScanner, WhatIsNoJsonNumberIsRefused) {
  for (const char* text : {"", "-", ".5", "5.", "01", "-01.5", "1e", "1e+", "+1", "NaN", "Infinity",
                           "1e999", "-1e999"}) {
    const std::string kept = text;
    JsonScanner scanner(kept);
    double number = 0;
    EXPECT_FALSE(scanner.take_number(number)) << text;
  }
}

}  // namespace
}  // namespace retina
