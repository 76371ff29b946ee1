#include "train/schedule/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

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

// A run of that length with the default warm-up and drops.
ScheduleOptions default_schedule(std::int64_t total_steps) {
  ScheduleOptions options{.base_lr = 1, .total_steps = total_steps};
  options.warmup_steps = default_warmup_steps(total_steps);
  options.drop_steps = drop_steps({parse_span("x", "16/26"), parse_span("x", "22/26")},
                                  {.total_steps = total_steps}, options.warmup_steps);
  return options;
}

TEST(DefaultSchedule, ReachesItsRateAndDropsInsideRunsOfAnyLength) {
  for (std::int64_t total = 1; total <= 10'000; ++total) {
    SCOPED_TRACE(total);
    const ScheduleOptions options = default_schedule(total);
    ASSERT_LE(options.warmup_steps * 10, total);
    ASSERT_LE(options.warmup_steps, 1000);
    ASSERT_LT(options.warmup_steps, total);
    ASSERT_DOUBLE_EQ(learning_rate(options, options.warmup_steps), 1) << "the whole rate";
    std::int64_t before = options.warmup_steps;
    for (const std::int64_t drop : options.drop_steps) {
      ASSERT_GT(drop, before);
      ASSERT_LT(drop, total) << "a drop leaves steps";
      before = drop;
    }
    ASSERT_EQ(options.drop_steps.size(), total == 1 ? 0U : total == 2 ? 1U : 2U);
    ASSERT_NEAR(learning_rate(options, total - 1), std::pow(0.1, options.drop_steps.size()), 1e-12);
  }
}

// The published recipes' own spans, where a run has their 26 epochs.
TEST(DefaultSchedule, IsTorchvisionsFor26Epochs) {
  const std::vector<Span> spans = {parse_span("x", "16epochs"), parse_span("x", "22epochs")};
  for (std::int64_t epoch_steps = 1; epoch_steps <= 10'000; ++epoch_steps) {
    const RunLength run{.total_steps = 26 * epoch_steps, .steps_per_epoch = epoch_steps};
    ASSERT_EQ(default_schedule(run.total_steps).drop_steps, drop_steps(spans, run, 0))
        << epoch_steps;
  }
  EXPECT_EQ(default_warmup_steps(26 * 7329), 1000) << "COCO, 16 images a step";
}

TEST(DropSteps, OfEpochsAndStepsStayAsTheyAre) {
  const std::vector<Span> spans = {parse_span("x", "16epochs"), parse_span("x", "7steps")};
  const RunLength run{.total_steps = 100, .steps_per_epoch = 12};
  EXPECT_EQ(drop_steps(spans, run, 1000), (std::vector<std::int64_t>{192, 7}));
}

TEST(Span, ReadsEpochsStepsAndMinutes) {
  EXPECT_EQ(parse_span("x", "1epoch").unit, Span::Unit::kEpochs);
  EXPECT_EQ(parse_span("x", "500steps").count, 500);
  EXPECT_EQ(parse_span("x", "10min").unit, Span::Unit::kMinutes);
  EXPECT_EQ(parse_span("x", "2/3").unit, Span::Unit::kRun);
  EXPECT_EQ(to_steps(parse_span("x", "2/3"), {.total_steps = 100}), 66);
  const std::int64_t longest = kMostInSpan << 32;
  EXPECT_EQ(to_steps(parse_span("x", "999999/1000000"), {.total_steps = longest}),
            longest / 1'000'000 * 999'999 + longest % 1'000'000 * 999'999 / 1'000'000);
}

TEST(Span, RefusesAnythingElse) {
  for (const char* text : {"",           "10",      "steps",  "-1steps",  "0epoch",
                           "nanmin",     "5 steps", "2hours", "infsteps", "1000000001steps",
                           "1e30epochs", "0/3",     "3/3",    "4/3",      "/3",
                           "1/",         "1/3x",    "-1/3",   "1/-3",     "1/9999999",
                           "1/3epochs"}) {
    EXPECT_THROW(parse_span("checkpoint-every", text), Error) << text;
  }
}

TEST(Duration, HasFourUnits) {
  EXPECT_EQ(parse_duration_s("--for", "90s"), 90);
  EXPECT_EQ(parse_duration_s("--for", "1.5min"), 90);
  EXPECT_EQ(parse_duration_s("--for", "10m"), 600);
  EXPECT_EQ(parse_duration_s("--for", "4h"), 14400);
  EXPECT_EQ(parse_duration_s("--for", "2days"), 172800);
  for (const char* bad : {"", "4", "h", "-1h", "0s", "4hours", "nanh", "1e999h"}) {
    EXPECT_THROW(parse_duration_s("--for", bad), Error) << bad;
  }
}

}  // namespace
}  // namespace retina
