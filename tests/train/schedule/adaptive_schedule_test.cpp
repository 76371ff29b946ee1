#include "train/schedule/adaptive_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace retina {
namespace {

std::vector<bool> plateaus(const PlateauOptions& options, const std::vector<double>& values) {
  Plateau plateau(options);
  std::vector<bool> seen;
  for (const double value : values) seen.push_back(plateau.observe(value));
  return seen;
}

// Keras' ReduceLROnPlateau(patience=2): two values in a row without improvement.
TEST(Plateau, ComesAfterPatienceValuesWithoutImprovement) {
  EXPECT_EQ(plateaus({.patience = 2}, {1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.5}),
            (std::vector<bool>{false, false, false, true, false, true, false}));
}

TEST(Plateau, TakesLessThanMinDeltaForNoImprovement) {
  EXPECT_EQ(plateaus({.patience = 1, .min_delta = 0.1}, {1.0, 0.95, 0.85}),
            (std::vector<bool>{false, true, false}));
}

TEST(Plateau, TakesNotANumberForNoImprovement) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(plateaus({.patience = 2}, {nan, nan, 1.0, nan, nan}),
            (std::vector<bool>{false, true, false, false, true}));
}

AdaptiveScheduleOptions plateau_options() {
  AdaptiveScheduleOptions options;
  options.schedule = {.kind = ScheduleKind::kPlateau, .base_lr = 1.0, .drop_factor = 0.1};
  return options;
}

TEST(AdaptiveSchedule, DropsTheRateWhenTheEpochsMeanLossStalls) {
  AdaptiveSchedule adaptive_schedule(plateau_options());
  const std::vector<double> losses = {3, 2, 2, 2, 1};
  const std::vector<double> rates = {1, 1, 1, 0.1, 0.1};
  for (std::size_t epoch = 0; epoch < losses.size(); ++epoch) {
    adaptive_schedule.add_loss(losses[epoch] + 1, 3);  // mean over images, not over steps
    adaptive_schedule.add_loss(losses[epoch] - 3, 1);
    EXPECT_EQ(adaptive_schedule.close_epoch(), epoch == 3);
    EXPECT_DOUBLE_EQ(adaptive_schedule.learning_rate(0), rates[epoch]) << "epoch " << epoch;
  }
}

TEST(AdaptiveSchedule, DropsTheRateWhenTheApStalls) {
  AdaptiveScheduleOptions options = plateau_options();
  options.plateau_metric = PlateauMetric::kAp;
  options.plateau_patience = 1;
  AdaptiveSchedule adaptive_schedule(options);
  EXPECT_FALSE(adaptive_schedule.add_validation(0.2));
  EXPECT_TRUE(adaptive_schedule.add_validation(0.1));
  EXPECT_DOUBLE_EQ(adaptive_schedule.learning_rate(5), 0.1);
}

TEST(AdaptiveSchedule, LeavesOtherSchedulesAlone) {
  AdaptiveScheduleOptions options = plateau_options();
  options.schedule.kind = ScheduleKind::kConstant;
  AdaptiveSchedule adaptive_schedule(options);
  for (int epoch = 0; epoch < 5; ++epoch) {
    adaptive_schedule.add_loss(1, 1);
    EXPECT_FALSE(adaptive_schedule.close_epoch());
  }
  EXPECT_DOUBLE_EQ(adaptive_schedule.learning_rate(0), 1.0);
}

TEST(AdaptiveSchedule, EndsEarlyAfterPatienceValidationsWithoutABetterAp) {
  AdaptiveScheduleOptions options;
  options.early_stop_patience = 2;
  AdaptiveSchedule adaptive_schedule(options);
  for (const double ap : {0.1, 0.3, 0.2}) {
    adaptive_schedule.add_validation(ap);
    EXPECT_FALSE(adaptive_schedule.ended_early());
  }
  adaptive_schedule.add_validation(0.3);
  EXPECT_TRUE(adaptive_schedule.ended_early());
}

TEST(AdaptiveSchedule, EndsWithTheMetricThatIsAimedAt) {
  AdaptiveScheduleOptions options = plateau_options();
  options.stop_at = 0.34;
  AdaptiveSchedule adaptive_schedule(options);
  for (const double ap : {0.2, std::nan(""), 0.3399}) {
    adaptive_schedule.add_validation(ap);
    EXPECT_FALSE(adaptive_schedule.ended_early()) << ap;
  }
  adaptive_schedule.add_validation(0.34);
  EXPECT_TRUE(adaptive_schedule.ended_early());
  // Another start: the goal is its own.
  AdaptiveSchedule same(options);
  same.restore(adaptive_schedule.state(), 0.34);
  EXPECT_TRUE(same.ended_early());
  options.stop_at = 0.35;
  AdaptiveSchedule higher(options);
  higher.restore(adaptive_schedule.state(), 0.34);
  EXPECT_FALSE(higher.ended_early());
}

TEST(AdaptiveSchedule, GoesOnFromItsStateAsIfNeverStopped) {
  AdaptiveScheduleOptions options = plateau_options();
  options.early_stop_patience = 3;
  AdaptiveSchedule whole(options), part(options);
  const auto epoch = [](AdaptiveSchedule& adaptive_schedule, double loss) {
    adaptive_schedule.add_loss(loss, 4);
    adaptive_schedule.close_epoch();
    adaptive_schedule.add_validation(loss / 7);
  };
  for (const double loss : {2.0, 1.0, 1.1}) {
    epoch(whole, loss);
    epoch(part, loss);
  }
  whole.add_loss(0.7, 2);
  part.add_loss(0.7, 2);
  AdaptiveSchedule resumed(options);
  resumed.restore(part.state());
  for (const double loss : {1.3, 0.1, 0.1, 0.1}) {
    epoch(whole, loss);
    epoch(resumed, loss);
    EXPECT_EQ(whole.state(), resumed.state());
    EXPECT_EQ(whole.learning_rate(9), resumed.learning_rate(9));
  }
}

}  // namespace
}  // namespace retina
