#include "shared/comm/activity.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

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

}  // namespace
}  // namespace retina
