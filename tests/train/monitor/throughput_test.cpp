#include "train/monitor/throughput.h"

#include <gtest/gtest.h>

#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

StepMetrics step_of(double step_ms, double wait_ms) {
  return {.images = 4, .images_own = 4, .step_ms = step_ms, .exposed_comm_ms = wait_ms};
}

TEST(Throughput, LeavesTheFirstStepsOut) {
  Throughput throughput;
  throughput.add(step_of(60000, 0));
  throughput.add(step_of(60000, 0));
  for (int i = 0; i < 10; ++i) throughput.add(step_of(500, 100));
  const auto communicator = make_self_communicator();
  const std::string text = throughput.summary(*communicator);
  EXPECT_NE(text.find("in total   8.00 over 10 steps, 1 rank\n"), std::string::npos) << text;
  EXPECT_NE(text.find("mean 10.00"), std::string::npos) << text;
}

TEST(Throughput, NamesTheSlowestRankAndTheSpread) {
  const std::string text = throughput_text(30, 7, {10, 12, 8});
  EXPECT_NE(text.find("least 8.00 (rank 2), most 12.00 (rank 1), spread 40.0 %"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 1             12.00"), std::string::npos) << text;
}

TEST(Throughput, TellsTheScalingReportOfTheSlowestRank) {
  ThreadWorld world({.ring = {.ranks = 3}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    Throughput throughput;
    for (int i = 0; i < 9; ++i) {
      StepMetrics metrics = step_of(500, 100 - 30 * comm.rank());
      metrics.reduce = {.traffic = {.bytes = 600, .seconds = 0.2}, .overlap_seconds = 0.125};
      metrics.images_own = 2;
      throughput.add(metrics);
    }
    const ScalingRun run = throughput.scaling_run(comm, {400, 800});
    EXPECT_EQ(run.ranks, 3);
    EXPECT_EQ(run.step_count, 7);
    EXPECT_DOUBLE_EQ(run.step_seconds, 0.5);
    EXPECT_DOUBLE_EQ(run.own_seconds, 0.46);
    EXPECT_DOUBLE_EQ(run.exposed_seconds(), 0.04);
    EXPECT_DOUBLE_EQ(run.comm_seconds, 0.2);
    EXPECT_DOUBLE_EQ(run.overlap_seconds, 0.125);
    EXPECT_DOUBLE_EQ(run.images_per_second, 8);
    EXPECT_EQ(run.bucket_bytes, (std::vector<double>{200, 400}));  // as it travelled
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(Throughput, SaysNothingWithoutSteps) {
  const auto communicator = make_self_communicator();
  EXPECT_EQ(Throughput().summary(*communicator), "");
}

}  // namespace
}  // namespace retina
