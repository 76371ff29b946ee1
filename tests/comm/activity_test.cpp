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

}  // namespace
}  // namespace retina
