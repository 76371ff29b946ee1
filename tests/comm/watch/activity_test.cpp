#include "shared/comm/watch/activity.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <thread>

#include "tests/support/test_folder.h"

namespace retina {
namespace {

using Clock = std::chrono::steady_clock;

double since_s(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

TEST(Activity, CountsNoTimeInWhichTheProcessStoodStill) {
  EventRing ring;
  Activity activity(0, ring);
  activity.set_step(1);
  activity.enter(Phase::kReduce);
  activity.begin({.kind = CollectiveKind::kBarrier});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Clock::time_point awake = Clock::now();
  activity.forgive(3600);
  const RankState state = activity.state();
  EXPECT_LE(state.in_collective_s, since_s(awake));
  EXPECT_LE(state.quiet_s, since_s(awake));
  EXPECT_LE(state.in_phase_s, since_s(awake));
  EXPECT_GE(state.in_collective_s, 0);
}

TEST(Activity, KeepsTheTimeBeforeAndAfterItStoodStill) {
  EventRing ring;
  Activity activity(0, ring);
  const Clock::time_point begin = Clock::now();
  activity.begin({.kind = CollectiveKind::kBarrier});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  activity.forgive(0.005);
  const RankState state = activity.state();
  EXPECT_GE(state.in_collective_s, 0.015);
  EXPECT_LE(state.in_collective_s, since_s(begin) - 0.005);
}

// A page of the ring whose disk stands still: whoever touches it waits in the handler.
struct FrozenPage {
  static inline void* begin = nullptr;
  static inline std::size_t bytes = 0;
  static inline std::array<int, 2> touched{}, thaw{};  // pipes
};

void wait_for_the_disk(int) {
  char byte = 0;
  [[maybe_unused]] auto size = ::write(FrozenPage::touched[1], &byte, 1);
  size = ::read(FrozenPage::thaw[0], &byte, 1);
  ::mprotect(FrozenPage::begin, FrozenPage::bytes, PROT_READ | PROT_WRITE);
}

void freeze(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) == std::string::npos) continue;
    const std::size_t first = std::stoull(line, nullptr, 16);
    const std::size_t last = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    FrozenPage::begin = reinterpret_cast<void*>(first);
    FrozenPage::bytes = last - first;
  }
  ASSERT_NE(FrozenPage::begin, nullptr);
  ASSERT_EQ(::mprotect(FrozenPage::begin, FrozenPage::bytes, PROT_NONE), 0);
}

TEST(Activity, TellsItsStateWhileTheDiskOfTheRingStandsStill) {
  const TestFolder folder;
  EventRing ring(folder.path() + "/ring", {});
  Activity activity(0, ring);
  ASSERT_EQ(::pipe(FrozenPage::touched.data()), 0);
  ASSERT_EQ(::pipe(FrozenPage::thaw.data()), 0);
  struct sigaction handler {};
  struct sigaction before {};
  handler.sa_handler = wait_for_the_disk;
  ::sigaction(SIGSEGV, &handler, &before);
  freeze(folder.path() + "/ring");
  std::thread worker([&] { activity.enter(Phase::kForward); });
  char byte = 0;
  ASSERT_EQ(::read(FrozenPage::touched[0], &byte, 1), 1);  // it writes to the ring
  auto state = std::async(std::launch::async, [&] { return activity.state(); });
  const bool told = state.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_EQ(::write(FrozenPage::thaw[1], &byte, 1), 1);
  worker.join();
  ::sigaction(SIGSEGV, &before, nullptr);
  EXPECT_TRUE(told);
  EXPECT_EQ(state.get().phase, Phase::kForward);
  for (const int fd : FrozenPage::touched) ::close(fd);
  for (const int fd : FrozenPage::thaw) ::close(fd);
}

}  // namespace
}  // namespace retina
