#include "shared/comm/activity.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "shared/comm/communicator.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using Clock = std::chrono::steady_clock;

double since_s(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

TEST(Activity, CountsNoTimeInWhichTheProcessStoodStill) {
  Activity activity(0);
  activity.set_step(1);
  activity.enter(Phase::kReduce);
  activity.begin({.kind = CollectiveKind::kBarrier});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Clock::time_point awake = Clock::now();
  activity.exclude_gap(3600);
  const RankState state = activity.state();
  EXPECT_LE(state.in_collective_s, since_s(awake));
  EXPECT_LE(state.quiet_s, since_s(awake));
  EXPECT_LE(state.in_phase_s, since_s(awake));
  EXPECT_GE(state.in_collective_s, 0);
}

TEST(Activity, KeepsTheTimeBeforeAndAfterItStoodStill) {
  Activity activity(0);
  const Clock::time_point begin = Clock::now();
  activity.begin({.kind = CollectiveKind::kBarrier});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  activity.exclude_gap(0.005);
  const RankState state = activity.state();
  EXPECT_GE(state.in_collective_s, 0.015);
  EXPECT_LE(state.in_collective_s, since_s(begin) - 0.005);
}

TEST(Communicator, ReportsEachCollectiveUnderItsLabel) {
  Activity activity(0);
  const auto comm = make_self_communicator();
  comm->report_to(activity);
  comm->label("bucket 5");
  comm->barrier();
  comm->barrier();
  const RankState state = activity.state();
  EXPECT_EQ(state.sequence, 2U);
  EXPECT_EQ(state.in_collective, 0);
  EXPECT_EQ(state.recent[1].operation.name(), "bucket 5");
  EXPECT_EQ(state.recent[0].operation.name(), "barrier") << "a label names one collective";
}

TEST(Communicator, AwaitsTheDiagnosisWhenAnotherRankFailed) {
  Activity activity(0);
  int waits = 0;
  ThreadWorld world({.ring = {.ranks = 2}, .faults = {{.rank = 1, .collective = 1}}});
  world.run([&](ThreadRank& comm) {
    if (comm.is_root()) comm.report_to(activity, [&] { ++waits; });
    comm.barrier();
    comm.barrier();
  });
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(activity.state().sequence, 2U);
  EXPECT_EQ(activity.state().in_collective, 1) << "it never came back";
}

// The example of nccl-tests' PERFORMANCE.md: bus bandwidth is 2(n-1)/n times the algorithm's.
TEST(Bandwidth, OfTheBusIsNcclTestsFormula) {
  const OperationStats stats{.calls = 2, .bytes = 4'000'000, .seconds = 0.5};
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(stats), 8e6);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(stats, 2), 8e6);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(stats, 8), 14e6);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(stats, 1), 0);
}

TEST(Bandwidth, IsZeroBeforeAnyTimeHasPassed) {
  EXPECT_EQ(algorithm_bandwidth({}), 0);
  EXPECT_EQ(all_reduce_bus_bandwidth({}, 4), 0);
}

}  // namespace
}  // namespace retina
