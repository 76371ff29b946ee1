#include "train/run/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shared/base/error.h"

namespace retina {
namespace {

// Daly's model of the whole: work T, in pieces of t, each followed by a checkpoint of cost c,
// failures as a Poisson process: T_wall / T = m e^(R/m) (e^((t + c) / m) - 1) / t (Daly 2006, eq.
// 20; R = 0).
double wall_over_work(double interval_s, double cost_s, double mtbf_s) {
  return mtbf_s * std::expm1((interval_s + cost_s) / mtbf_s) / interval_s;
}

TEST(DalyInterval, IsNearlyTheBestOfAll) {
  for (const double cost_s : {0.01, 1.0, 60.0, 600.0}) {
    for (const double mtbf_s : {900.0, 14400.0, 864000.0}) {
      const double chosen = wall_over_work(daly_interval_s(cost_s, mtbf_s), cost_s, mtbf_s);
      double best = chosen;
      for (double t = cost_s / 10; t < 4 * mtbf_s; t *= 1.01) {
        best = std::min(best, wall_over_work(t, cost_s, mtbf_s));
      }
      EXPECT_LT(chosen, best * 1.002) << cost_s << " s every " << mtbf_s << " s";
    }
  }
}

TEST(DalyInterval, IsYoungsForASmallCost) {
  EXPECT_NEAR(daly_interval_s(0.01, 14400), std::sqrt(2 * 0.01 * 14400), 0.01);
  EXPECT_EQ(daly_interval_s(7200, 3600), 3600) << "as long as the time between failures";
  EXPECT_EQ(daly_interval_s(0, 3600), 0);
}

TEST(CheckpointInterval, LetsSavingTakeAHundredthAtMost) {
  EXPECT_EQ(checkpoint_interval_s({.lost_s = 2}, 3600), 200) << "Daly's would be 118 s";
  EXPECT_NEAR(checkpoint_interval_s({.lost_s = 0.1}, 14400), 53.6, 0.1);
  EXPECT_EQ(checkpoint_interval_s({.lost_s = 0.1, .write_s = 80}, 14400), 80);
}

TEST(Duration, HasFourUnits) {
  EXPECT_EQ(parse_duration_s("mtbf", "90s"), 90);
  EXPECT_EQ(parse_duration_s("mtbf", "1.5min"), 90);
  EXPECT_EQ(parse_duration_s("mtbf", "4h"), 14400);
  EXPECT_EQ(parse_duration_s("mtbf", "2days"), 172800);
  for (const char* bad : {"", "4", "h", "-1h", "0s", "4hours", "nanh", "1e999h"}) {
    EXPECT_THROW(parse_duration_s("mtbf", bad), Error) << bad;
  }
}

TEST(CheckpointMeter, AddsWhatStepsLoseWhileOneIsWritten) {
  CheckpointMeter meter(7);
  EXPECT_EQ(meter.lost_s(), 7) << "the guess";
  for (int i = 0; i < 9; ++i) meter.add_step(i == 4 ? 50 : 1, false);  // one outlier
  meter.add_stall(0.5);
  meter.add_step(1.25, true);
  meter.add_step(1.5, true);
  meter.add_step(1, false);
  EXPECT_DOUBLE_EQ(meter.lost_s(), 0.5 + 0.25 + 0.5);
  meter.add_stall(0.25);
  meter.add_step(0.5, true);
  meter.add_stall(0.125);
  EXPECT_DOUBLE_EQ(meter.lost_s(), 0.25) << "the median; faster steps are chance, not a gain";
  for (int i = 0; i < 5; ++i) meter.add_stall(0.0625);
  EXPECT_DOUBLE_EQ(meter.lost_s(), 0.0625) << "of the latest five";
}

// A job that was paused while it wrote must not stop saving for an hour.
TEST(CheckpointMeter, BooksAHiccupAsOneStepAtMost) {
  CheckpointMeter meter(1);
  for (int i = 0; i < 9; ++i) meter.add_step(2, false);
  meter.add_stall(0.5);
  meter.add_step(90, true);
  EXPECT_DOUBLE_EQ(meter.lost_s(), 0.5 + 2);
  EXPECT_EQ(checkpoint_interval_s({.lost_s = 60}, 600), 600) << "as often as failures come";
}

}  // namespace
}  // namespace retina
