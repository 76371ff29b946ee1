#include "train/scaling/scaling_model.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

constexpr double kMiB = 1024 * 1024;

// A job whose truth is known: what runs on `ranks` of it measure.
ScalingPoint measured(const ScalingModel& truth, int ranks) {
  ScalingPoint point{.ranks = ranks,
                     .step_seconds = truth.step_seconds(ranks),
                     .own_seconds = truth.own_seconds,
                     .overlap_seconds = truth.overlap_seconds,
                     .bucket_bytes = truth.bucket_bytes};
  if (ranks == 1) return point;
  for (const double bytes : {4096.0, 262144.0, 2 * kMiB, 25 * kMiB}) {
    point.samples.push_back({bytes, all_reduce_seconds(ranks, truth.links.link, bytes)});
  }
  return point;
}

ScalingModel truth() {
  return {.own_seconds = 0.4,
          .overlap_seconds = 0.2,
          .bucket_bytes = {25 * kMiB, 25 * kMiB, 10 * kMiB},
          .links = {.link = {.latency_seconds = 20e-6, .bytes_per_second = 500e6}}};
}

TEST(ScalingModel, FindsTheTruthOfExactMeasurements) {
  const auto model =
      fit_scaling({measured(truth(), 1), measured(truth(), 2), measured(truth(), 4)});
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->links.link.latency_seconds, 20e-6, 1e-11);
  EXPECT_NEAR(model->links.link.bytes_per_second, 500e6, 10);
  for (const int ranks : {1, 2, 3, 8, 64, 1024}) {
    EXPECT_NEAR(model->step_seconds(ranks) / truth().step_seconds(ranks), 1, 1e-6) << ranks;
  }
}

// By hand: 2 ranks move each byte once. 60 MiB in 0.126 s hide behind 0.2 s, the last 10 MiB do
// not.
TEST(ScalingModel, HidesWhatBackwardCoversButNeverTheLastBucket) {
  const ScalingModel model = truth();
  EXPECT_EQ(model.step_seconds(1), 0.4);
  EXPECT_NEAR(model.exposed_seconds(2), 10 * kMiB / 500e6 + (2 + 1) * 20e-6, 1e-12);
  ScalingModel covers_nothing = model;
  covers_nothing.overlap_seconds = 0;
  EXPECT_NEAR(covers_nothing.exposed_seconds(2), 60 * kMiB / 500e6 + (3 * 2 + 1) * 20e-6, 1e-12);
  // 1024 ranks: 2 * 1023 latencies a bucket, 2 * 1023/1024 of the bytes, 10 hops of the losses.
  const double ring = 3 * 2 * 1023 * 20e-6 + 2.0 * 1023 / 1024 * 60 * kMiB / 500e6;
  EXPECT_NEAR(model.exposed_seconds(1024), ring - 0.2 + 10 * 20e-6, 1e-12);
}

TEST(ScalingModel, TakesTheMedianOfWhatEachRunMeasured) {
  ScalingPoint disturbed = measured(truth(), 3);
  disturbed.own_seconds = 5;
  disturbed.overlap_seconds = 0;
  const auto model = fit_scaling({measured(truth(), 2), disturbed, measured(truth(), 4)});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->own_seconds, 0.4);
  EXPECT_EQ(model->overlap_seconds, 0.2);
}

TEST(ScalingModel, NeedsTwoRanks) {
  EXPECT_FALSE(fit_scaling({}));
  EXPECT_FALSE(fit_scaling({measured(truth(), 1)}));
  EXPECT_TRUE(fit_scaling({measured(truth(), 2)}));
}

}  // namespace
}  // namespace retina
