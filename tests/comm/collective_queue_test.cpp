#include "shared/comm/collective_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

#include "shared/base/error.h"
#include "shared/comm/thread_world.h"

namespace retina {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kRanks = 8;
constexpr int kBuckets = 20;

// What backward does: buckets become full while the caller computes, and travel meanwhile.
TEST(CollectiveQueue, ReducesBucketsOfEightRanksBesideTheirThreads) {
  ThreadWorld world({.ring = {.ranks = kRanks}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    std::vector<std::vector<double>> buckets(kBuckets);
    CollectiveQueue queue(comm);
    for (int step = 1; step <= 10; ++step) {
      for (int bucket = 0; bucket < kBuckets; ++bucket) {
        auto& data = buckets[static_cast<std::size_t>(bucket)];
        data.assign(static_cast<std::size_t>(bucket + 1), step * (comm.rank() + 1));
        queue.push([&data](Communicator& ranks) {
          ranks.all_reduce(data.data(), data.size(), ElementType::kFloat64, ReduceOp::kSum);
        });
      }
      queue.wait();
      for (const auto& data : buckets) EXPECT_THAT(data, Each(step * 36.0));
      comm.barrier();  // the communicator is the caller's again
    }
    EXPECT_GT(queue.busy_seconds(), 0);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(CollectiveQueue, KeepsTheOrderOfItsWork) {
  const auto comm = make_self_communicator();
  CollectiveQueue queue(*comm);
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) queue.push([&order, i](Communicator&) { order.push_back(i); });
  queue.wait();
  std::vector<int> want(1000);
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(order, want);
}

TEST(CollectiveQueue, GivesTheFirstErrorToWhoWaitsAndDropsTheRest) {
  const auto comm = make_self_communicator();
  CollectiveQueue queue(*comm);
  std::atomic<int> later = 0;
  queue.push([](Communicator&) { throw Error(ErrorKind::kRankFailure, "rank 3 is gone"); });
  queue.push([&](Communicator&) { ++later; });
  for (int i = 0; i < 2; ++i) {
    try {
      queue.wait();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 3 is gone"));
    }
    queue.push([&](Communicator&) { ++later; });
  }
  EXPECT_EQ(later, 0);
}

// A rank that dies in its queue ends the waiting of all others with its name.
TEST(CollectiveQueue, ADeadRankEndsTheWaitOfTheOthers) {
  ThreadWorld world({.ring = {.ranks = kRanks},
                     .faults = {{.rank = 5, .collective = 3, .kind = RankFault::Kind::kDie}}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    std::vector<float> data(64, 1);
    CollectiveQueue queue(comm);
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      queue.push([&data](Communicator& ranks) {
        ranks.all_reduce(data.data(), data.size(), ElementType::kFloat32, ReduceOp::kSum);
      });
    }
    queue.wait();
  });
  for (const auto& outcome : outcomes) EXPECT_THAT(outcome.message, HasSubstr("rank 5"));
}

TEST(CollectiveQueue, FinishesWhatIsQueuedWhenItEnds) {
  const auto comm = make_self_communicator();
  std::atomic<int> done = 0;
  {
    CollectiveQueue queue(*comm);
    for (int i = 0; i < 100; ++i) queue.push([&](Communicator&) { ++done; });
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace retina
