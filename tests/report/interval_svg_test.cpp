#include "shared/report/interval_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The axis goes from -.1 to .2 over 680 pixels that begin at 200.
TEST(IntervalSvg, DrawsEachValueWithItsInterval) {
  const std::string svg = interval_svg(
      {.x_label = "B - A",
       .rows = {{.label = "dog",
                 .detail = "dog: +0.1",
                 .value = .1,
                 .low = .05,
                 .high = .2,
                 .marked = true},
                {.label = "cat", .detail = "cat: -0.05", .value = -.05, .low = -.1, .high = .05}}});
  EXPECT_THAT(svg, HasSubstr("<g class=\"s2\"><title>dog: +0.1</title>"));
  EXPECT_THAT(svg, HasSubstr("<line class=\"span\" x1=\"540.0\" x2=\"880.0\""));
  EXPECT_THAT(svg, HasSubstr("<circle class=\"dot\" cx=\"653.3\""));
  EXPECT_THAT(svg, HasSubstr("<g class=\"s7\"><title>cat: -0.05</title>"));
  EXPECT_THAT(svg, HasSubstr("<line class=\"span\" x1=\"200.0\" x2=\"540.0\""));
  EXPECT_THAT(svg, HasSubstr("<line class=\"axis\" x1=\"426.7\" x2=\"426.7\"")) << "at 0";
}

TEST(IntervalSvg, AMarkedLossHasAnotherColourThanAGain) {
  const std::string svg = interval_svg(
      {.rows = {{.label = "a", .value = -.1, .low = -.2, .high = -.05, .marked = true}}});
  EXPECT_THAT(svg, HasSubstr("<g class=\"s1\">"));
}

TEST(IntervalSvg, AValueWithoutAnIntervalIsAMarkAlone) {
  const std::string svg =
      interval_svg({.rows = {{.label = "a", .value = .1, .low = kNone, .high = kNone}}});
  EXPECT_THAT(svg, Not(HasSubstr("span")));
  EXPECT_THAT(svg, HasSubstr("<circle class=\"mark\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(IntervalSvg, EqualValuesAtZeroStillHaveAnAxis) {
  const std::string svg = interval_svg({.rows = {{.label = "a"}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("cx=\"540.0\""));
}

TEST(IntervalSvg, NamesAreEscapedAndShortenedByCharacters) {
  const std::string svg =
      interval_svg({.rows = {{.label = "<b>"}, {.label = "äääääääääääääääääääääääääääää"}}});
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(svg, HasSubstr(">ääääääääääääääääääääääääääää…<"));
}

TEST(IntervalSvg, NothingToDrawSaysSo) {
  EXPECT_THAT(interval_svg({}), HasSubstr("no values"));
}

}  // namespace
}  // namespace retina
