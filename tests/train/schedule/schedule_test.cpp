#include "train/schedule/schedule.h"

#include <gtest/gtest.h>

#include "shared/base/error.h"

namespace retina {
namespace {

TEST(Schedule, WarmsUpLinearlyFromTheFactor) {
  const ScheduleOptions options{.base_lr = 0.01, .warmup_steps = 1000, .warmup_factor = 0.001};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.00001);
  // torch.optim.lr_scheduler.LinearLR(start_factor=1/1000, total_iters=1000) at 500.
  EXPECT_NEAR(learning_rate(options, 500), 0.01 * 0.5005, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1000), 0.01);
}

TEST(Schedule, DropsFromTheGivenStepsOn) {
  const ScheduleOptions options{.base_lr = 1, .drop_steps = {10, 20}, .drop_factor = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 20), 0.1 * 0.1);
}

TEST(Schedule, CosineGoesFromTheBaseRateToZero) {
  const ScheduleOptions options{.kind = ScheduleKind::kCosine, .base_lr = 2, .total_steps = 100};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 2);
  EXPECT_NEAR(learning_rate(options, 50), 1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 100), 0, 1e-12);
}

// Keras' SGD(learning_rate=0.1, decay=1e-3): lr / (1 + decay * iterations).
TEST(Schedule, InverseTimeHalvesTheRateAfterOneOverDecaySteps) {
  const ScheduleOptions options{.kind = ScheduleKind::kInverseTime, .base_lr = 0.1, .decay = 1e-3};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.1 / 1.001);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1000), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9000), 0.01);
  EXPECT_NEAR(learning_rate(options, 1'000'000'000), 1e-7, 1e-12);
}

TEST(Schedule, OfEachKindCountsTheStepsOfTheWarmUp) {
  for (const ScheduleKind kind : {ScheduleKind::kInverseTime, ScheduleKind::kCosine}) {
    const ScheduleOptions plain{.kind = kind, .base_lr = 2, .total_steps = 100, .decay = 0.1};
    ScheduleOptions warmed = plain;
    warmed.warmup_steps = 10;
    warmed.warmup_factor = 0.5;
    EXPECT_DOUBLE_EQ(learning_rate(warmed, 0), 0.5 * learning_rate(plain, 0));
    EXPECT_DOUBLE_EQ(learning_rate(warmed, 5), 0.75 * learning_rate(plain, 5));
    EXPECT_DOUBLE_EQ(learning_rate(warmed, 10), learning_rate(plain, 10));
  }
}

TEST(Span, ReadsEpochsStepsAndMinutes) {
  EXPECT_EQ(parse_span("x", "1epoch").unit, Span::Unit::kEpochs);
  EXPECT_EQ(parse_span("x", "500steps").count, 500);
  EXPECT_EQ(parse_span("x", "10min").unit, Span::Unit::kMinutes);
}

TEST(Span, RefusesAnythingElse) {
  for (const char* text : {"", "10", "steps", "-1steps", "0epoch", "nanmin", "5 steps", "2hours",
                           "infsteps", "1000000001steps", "1e30epochs"}) {
    EXPECT_THROW(parse_span("checkpoint-every", text), Error) << text;
  }
}

}  // namespace
}  // namespace retina
