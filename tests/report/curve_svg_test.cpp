#include "shared/report/curve_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(CurveSvg, PointsThatAreNotFiniteBreakTheLine) {
  const Curve curve{.title = "loss",
                    .series = {{.name = "a", .xs = {1, 2, 3, 4, 5}, .ys = {1, 2, kNone, 2, 1}}}};
  const std::string svg = curve_svg(curve);
  const auto begin = svg.find(" d=\"");
  ASSERT_NE(begin, std::string::npos);
  const std::string path = svg.substr(begin + 4, svg.find('"', begin + 4) - begin - 4);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'L'), 2);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(CurveSvg, NothingToDrawSaysSo) {
  EXPECT_THAT(curve_svg({}), HasSubstr("no values"));
  EXPECT_THAT(curve_svg({.series = {{.xs = {1}, .ys = {kNone}}}}), HasSubstr("no values"));
  EXPECT_THAT(curve_svg({.series = {{.xs = {1, 2}, .ys = {0, -1}}}, .log_y = true}),
              HasSubstr("no values"));
}

// 1, 10 and 100 lie at even distances; what is not positive has no place.
TEST(CurveSvg, DrawsALogarithmicXAxis) {
  const std::string svg =
      curve_svg({.series = {{.xs = {0, 1, 10, 100}, .ys = {1, 1, 1, 1}}}, .log_x = true});
  EXPECT_THAT(svg, HasSubstr("d=\"M52.0 "));
  EXPECT_THAT(svg, HasSubstr("L299.0 "));
  EXPECT_THAT(svg, HasSubstr("L546.0 "));
  EXPECT_EQ(count_of(svg, "L"), 2U);
}

TEST(CurveSvg, ASinglePointIsMarked) {
  EXPECT_EQ(count_of(curve_svg({.series = {{.xs = {3}, .ys = {0.5}}}}), "<circle"), 1U);
}

TEST(CurveSvg, MarksAreAskedFor) {
  Curve curve{.series = {{.xs = {1, 2, 3}, .ys = {1, 2, 3}}}};
  EXPECT_EQ(count_of(curve_svg(curve), "<circle"), 0U);
  curve.series[0].points = true;
  EXPECT_EQ(count_of(curve_svg(curve), "<circle"), 3U);
}

TEST(CurveSvg, ThinningKeepsEveryExtreme) {
  Series series;
  for (int i = 0; i < 100'000; ++i) {
    series.xs.push_back(i);
    series.ys.push_back(i == 51'234 ? 99.0 : i == 77'777 ? -99.0 : std::sin(i * 0.01));
  }
  const Series thin = thinned(series, 1000);
  EXPECT_LE(thin.xs.size(), 1000U);
  EXPECT_EQ(*std::max_element(thin.ys.begin(), thin.ys.end()), 99.0);
  EXPECT_EQ(*std::min_element(thin.ys.begin(), thin.ys.end()), -99.0);
  EXPECT_TRUE(std::is_sorted(thin.xs.begin(), thin.xs.end()));
  EXPECT_EQ(thinned({.xs = {1, 2}, .ys = {3, 4}}, 1000).ys, (std::vector<double>{3, 4}));
}

TEST(CurveSvg, FaintSeriesTakeTheColourOfTheirSmoothedForm) {
  const auto classes =
      series_classes({{.name = "raw", .faint = true}, {.name = "smooth"}, {.name = "other"}});
  EXPECT_THAT(classes, testing::ElementsAre("s0 faint", "s0", "s1"));
}

}  // namespace
}  // namespace retina
