#include "shared/comm/watch/event_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/comm/watch/activity.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr std::uint64_t kJob = 42;

Event event_of(std::uint64_t sequence) {
  Event event;
  event.sequence = sequence;
  event.step = static_cast<std::int64_t>(sequence / 10);
  return event;
}

TEST(EventRing, KeepsTheLastEventsInOrderWhenItWrapsAround) {
  const TestFolder folder;
  const std::string path = ring_path(folder.path(), kJob, 3);
  EventRing ring(path, {.rank = 3, .size = 4});
  ASSERT_TRUE(ring.has_file());
  for (std::uint64_t i = 0; i < kEventSlots + 100; ++i) ring.add(event_of(i));
  const RankEvents read = read_ring(path);
  EXPECT_EQ(read.header.rank, 3);
  ASSERT_EQ(read.events.size(), kEventSlots);
  for (std::size_t i = 0; i < kEventSlots; ++i) ASSERT_EQ(read.events[i].sequence, i + 100);
}

TEST(EventRing, LeavesOutAnEntryThatWasBeingWritten) {
  const TestFolder folder;
  const std::string path = ring_path(folder.path(), kJob, 0);
  EventRing ring(path, {});
  for (std::uint64_t i = 0; i < 3; ++i) ring.add(event_of(i));
  std::string bytes = read_file(path);
  const std::uint64_t none = 0;
  std::memcpy(bytes.data() + sizeof(RingHeader) + 2 * sizeof(Event), &none, sizeof(none));
  write_file_atomically(path, bytes);
  const RankEvents read = read_ring(path);
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_EQ(read.events.back().sequence, 1U);
}

TEST(EventRing, RefusesForeignAndDamagedFiles) {
  const TestFolder folder;
  const std::string path = ring_path(folder.path(), kJob, 0);
  { EventRing ring(path, {}); }
  const std::string good = read_file(path);
  EXPECT_NO_THROW(read_ring(path));
  for (const std::string& bad :
       {std::string(), std::string("text"), good.substr(1), good + "x",
        std::string(good.size(), 'x'), std::string(good).replace(8, 1, "\x7f")}) {
    write_file_atomically(path, bad);
    EXPECT_THROW(read_ring(path), Error);
  }
}

TEST(EventRing, WorksWithoutAFileWhereNoneCanBeMade) {
  EventRing ring("/nowhere/at/all", {});
  EXPECT_FALSE(ring.has_file());
  ring.add(event_of(1));
}

TEST(EventRing, OutlivesAKilledProcess) {
  const TestFolder folder;
  const std::string path = ring_path(folder.path(), kJob, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    EventRing ring(path, {.rank = 1, .size = 2});
    Activity activity(1, ring);
    activity.set_step(812);
    activity.enter(Phase::kDataDecode);
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const RankEvents read = read_ring(path);
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_EQ(read.events.back().phase, Phase::kDataDecode);
  EXPECT_EQ(read.events.back().step, 812);
}

TEST(EventRing, MergesTheRanksOfANodeByTime) {
  const TestFolder folder;
  EventRing first(ring_path(folder.path(), kJob, 0), {.rank = 0, .size = 3});
  EventRing second(ring_path(folder.path(), kJob, 2), {.rank = 2, .size = 3});
  EventRing other(ring_path(folder.path(), kJob + 1, 1), {.rank = 1, .size = 3});
  other.add(event_of(9));
  first.add(event_of(1));
  second.add(event_of(2));
  first.add(event_of(3));
  const std::vector<NodeEvent> merged = merge_rings(folder.path(), kJob, 3);
  std::vector<std::uint64_t> order;
  for (const NodeEvent& item : merged) order.push_back(item.event.sequence);
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(merged[1].rank, 2);
}

TEST(EventRing, TakesEventsOfTwoThreadsAtOnce) {
  const TestFolder folder;
  const std::string path = ring_path(folder.path(), kJob, 0);
  EventRing ring(path, {});
  const auto write = [&] {
    for (std::uint64_t i = 0; i < 1000; ++i) ring.add(event_of(i));
  };
  std::thread other(write);
  write();
  other.join();
  EXPECT_EQ(read_ring(path).events.size(), 2000U);
}

TEST(EventRing, FilesOfDeadJobsGoAfterAnHour) {
  const TestFolder folder;
  const std::string dead = ring_path(folder.path(), kJob, 0), verdict = dead + "-verdict-x";
  const std::string alive = ring_path(folder.path(), kJob, 1), fresh = folder / "retina-events-x";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EventRing first(dead, {.pid = child}), second(alive, {.pid = ::getpid()});
  write_file_atomically(verdict, "");
  remove_stale_rings(folder.path());
  EXPECT_TRUE(path_exists(dead));
  const auto past = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (const std::string& path : {dead, verdict, alive})
    std::filesystem::last_write_time(path, past);
  write_file_atomically(fresh, "");
  remove_stale_rings(folder.path());
  EXPECT_FALSE(path_exists(dead));
  EXPECT_FALSE(path_exists(verdict));
  EXPECT_TRUE(path_exists(alive));
  EXPECT_TRUE(path_exists(fresh));
}

TEST(EventRing, NormalEndLeavesNoFile) {
  const TestFolder folder;
  const std::string path = ring_path(folder.path(), kJob, 0);
  EventRing ring(path, {});
  ASSERT_TRUE(path_exists(path));
  ring.remove();
  EXPECT_FALSE(path_exists(path));
}

}  // namespace
}  // namespace retina
