#include "train/pace/pacing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "train/pace/stall.h"

namespace retina {
namespace {

std::vector<bool> stalls(const StallOptions& options, const std::vector<double>& values) {
  Stall stall(options);
  std::vector<bool> seen;
  for (const double value : values) seen.push_back(stall.observe(value));
  return seen;
}

// Keras' ReduceLROnPlateau(patience=2): two values in a row without improvement.
TEST(Stall, ComesAfterPatienceValuesWithoutImprovement) {
  EXPECT_EQ(stalls({.patience = 2}, {1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.5}),
            (std::vector<bool>{false, false, false, true, false, true, false}));
}

TEST(Stall, TakesLessThanMinDeltaForNoImprovement) {
  EXPECT_EQ(stalls({.patience = 1, .min_delta = 0.1}, {1.0, 0.95, 0.85}),
            (std::vector<bool>{false, true, false}));
}

TEST(Stall, FollowsAFigureThatShouldRise) {
  EXPECT_EQ(stalls({.higher_is_better = true, .patience = 2, .min_delta = 0}, {0.1, 0.2, 0.2, 0.1}),
            (std::vector<bool>{false, false, false, true}));
}

TEST(Stall, TakesNotANumberForNoImprovement) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(stalls({.patience = 2}, {nan, nan, 1.0, nan, nan}),
            (std::vector<bool>{false, true, false, false, true}));
}

PacingOptions plateau_options() {
  PacingOptions options;
  options.schedule = {.kind = ScheduleKind::kPlateau, .base_lr = 1.0, .drop_factor = 0.1};
  return options;
}

TEST(Pacing, DropsTheRateWhenTheEpochsMeanLossStalls) {
  Pacing pacing(plateau_options());
  const std::vector<double> losses = {3, 2, 2, 2, 1};
  const std::vector<double> rates = {1, 1, 1, 0.1, 0.1};
  for (std::size_t epoch = 0; epoch < losses.size(); ++epoch) {
    pacing.add_loss(losses[epoch] + 1, 3);  // mean over images, not over steps
    pacing.add_loss(losses[epoch] - 3, 1);
    EXPECT_EQ(pacing.close_epoch(), epoch == 3);
    EXPECT_DOUBLE_EQ(pacing.learning_rate(0), rates[epoch]) << "epoch " << epoch;
  }
}

TEST(Pacing, DropsTheRateWhenTheApStalls) {
  PacingOptions options = plateau_options();
  options.plateau_figure = PlateauFigure::kAp;
  options.plateau_patience = 1;
  Pacing pacing(options);
  EXPECT_FALSE(pacing.add_validation(0.2));
  EXPECT_TRUE(pacing.add_validation(0.1));
  EXPECT_DOUBLE_EQ(pacing.learning_rate(5), 0.1);
}

TEST(Pacing, LeavesOtherSchedulesAlone) {
  PacingOptions options = plateau_options();
  options.schedule.kind = ScheduleKind::kConstant;
  Pacing pacing(options);
  for (int epoch = 0; epoch < 5; ++epoch) {
    pacing.add_loss(1, 1);
    EXPECT_FALSE(pacing.close_epoch());
  }
  EXPECT_DOUBLE_EQ(pacing.learning_rate(0), 1.0);
}

TEST(Pacing, EndsEarlyAfterPatienceValidationsWithoutABetterAp) {
  PacingOptions options;
  options.early_stop_patience = 2;
  Pacing pacing(options);
  for (const double ap : {0.1, 0.3, 0.2}) {
    pacing.add_validation(ap);
    EXPECT_FALSE(pacing.ended_early());
  }
  pacing.add_validation(0.3);
  EXPECT_TRUE(pacing.ended_early());
}

TEST(Pacing, GoesOnFromItsStateAsIfNeverStopped) {
  PacingOptions options = plateau_options();
  options.early_stop_patience = 3;
  Pacing whole(options), part(options);
  const auto epoch = [](Pacing& pacing, double loss) {
    pacing.add_loss(loss, 4);
    pacing.close_epoch();
    pacing.add_validation(loss / 7);
  };
  for (const double loss : {2.0, 1.0, 1.1}) {
    epoch(whole, loss);
    epoch(part, loss);
  }
  whole.add_loss(0.7, 2);
  part.add_loss(0.7, 2);
  Pacing resumed(options);
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
