#include "shared/report/axis.h"

#include <gtest/gtest.h>

#include <string>

namespace retina {
namespace {

std::string labels(const Axis& axis) {
  std::string all;
  for (const Tick& tick : axis.ticks) all += (all.empty() ? "" : " ") + tick.label;
  return all;
}

TEST(Axis, TicksAreRoundNumbers) {
  EXPECT_EQ(labels(make_axis(0, 0.83, {.round = true})), "0 0.2 0.4 0.6 0.8 1");
  EXPECT_EQ(labels(make_axis(1, 600, {.tick_count = 6})), "100 200 300 400 500 600");
  EXPECT_EQ(labels(make_axis(-3, 7, {})), "-2 0 2 4 6");
  EXPECT_EQ(labels(make_axis(0, 90000, {})), "0 20k 40k 60k 80k");
}

TEST(Axis, LogarithmicTicksAreDecades) {
  const Axis axis = make_axis(0.02, 700, {.log = true, .round = true});
  EXPECT_EQ(labels(axis), "0.01 0.1 1 10 100 1000");
  EXPECT_DOUBLE_EQ(axis.place(0.01), 0);
  EXPECT_DOUBLE_EQ(axis.place(1000), 1);
  EXPECT_NEAR(axis.place(1), 0.4, 1e-12);
}

TEST(Axis, EveryRangeHasTicksInside) {
  for (const double low : {-1e12, -5.0, -1e-9, 0.0, 1e-9, 3.0, 1e6, 1e12}) {
    for (const double width : {0.0, 1e-9, 0.3, 4.0, 1e5, 1e13}) {
      const Axis axis = make_axis(low, low + width, {.round = true});
      ASSERT_LT(axis.low, axis.high) << low << ' ' << width;
      ASSERT_GE(axis.place(low), -1e-6);
      ASSERT_LE(axis.place(low + width), 1 + 1e-6);
      ASSERT_GE(axis.ticks.size(), 2U) << low << ' ' << width;
      ASSERT_LE(axis.ticks.size(), 14U) << low << ' ' << width;
      for (const Tick& tick : axis.ticks) {
        ASSERT_GE(axis.place(tick.value), -1e-6);
        ASSERT_LE(axis.place(tick.value), 1 + 1e-6);
      }
    }
  }
}

TEST(Axis, NumbersReadShort) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.123456), "0.1235");
  EXPECT_EQ(short_number(5e-5), "5e-05");
  EXPECT_EQ(short_number(9999), "9999");
  EXPECT_EQ(short_number(118287), "118.3k");
  EXPECT_EQ(short_number(2.5e6), "2.5M");
  EXPECT_EQ(short_number(-1e300 * 1e300), "n/a");
}

}  // namespace
}  // namespace retina
