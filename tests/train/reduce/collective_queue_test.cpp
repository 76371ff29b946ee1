#include "train/reduce/collective_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "shared/base/error.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRanks = 8;
constexpr int kBuckets = 20;

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
  ThreadWorld world({.ring = {.ranks = kRanks}, .faults = {{.rank = 5, .collective = 3}}});
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

TEST(CollectiveQueue, CallWaitsForItsOwnWorkAndAllBeforeItOnly) {
  const auto alone = make_self_communicator();
  CollectiveQueue queue(*alone);
  std::vector<int> done;
  std::promise<void> gate;
  queue.push([&](Communicator&) { done.push_back(1); });
  queue.call([&](Communicator&) { done.push_back(2); });
  EXPECT_THAT(done, ElementsAre(1, 2));
  // Queued from within a call's work: behind it, and not waited for.
  queue.call([&](Communicator&) {
    queue.push([&, opened = gate.get_future().share()](Communicator&) {
      opened.wait();
      done.push_back(4);
    });
    done.push_back(3);
  });
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
  gate.set_value();
  queue.wait();
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4));
}

TEST(CollectiveQueue, CallThrowsItsErrorOrAnEarlierOne) {
  const auto alone = make_self_communicator();
  bool ran = false;
  {
    CollectiveQueue queue(*alone);
    EXPECT_THROW(queue.call([](Communicator&) { throw std::range_error("mine"); }),
                 std::range_error);
    EXPECT_THROW(queue.call([&](Communicator&) { ran = true; }), std::range_error);
    EXPECT_THROW(queue.wait(), std::range_error);
  }
  {
    CollectiveQueue queue(*alone);
    queue.push([](Communicator&) { throw std::domain_error("before"); });
    EXPECT_THROW(queue.call([&](Communicator&) { ran = true; }), std::domain_error);
  }
  EXPECT_FALSE(ran);
}

// As backward does it: buckets pushed, sums of a layer called between them.
TEST(CollectiveQueue, CallsBetweenPushesKeepTheRanksInStep) {
  constexpr int kFour = 4, kRounds = 200;
  ThreadWorld world({.ring = {.ranks = kFour}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    std::vector<std::vector<float>> buckets(kRounds, std::vector<float>(3));
    CollectiveQueue queue(comm);
    for (int round = 0; round < kRounds; ++round) {
      auto& bucket = buckets[static_cast<std::size_t>(round)];
      bucket.assign(3, static_cast<float>(comm.rank() + round));
      queue.push([&bucket](Communicator& communicator) {
        communicator.all_reduce(bucket.data(), bucket.size(), ElementType::kFloat32,
                                ReduceOp::kSum);
      });
      double sum = comm.rank();
      queue.call([&sum](Communicator& communicator) {
        communicator.all_reduce(&sum, 1, ElementType::kFloat64, ReduceOp::kSum);
      });
      EXPECT_EQ(sum, 6);
    }
    queue.wait();
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_THAT(buckets[static_cast<std::size_t>(round)],
                  Each(static_cast<float>(6 + kFour * round)));
    }
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

}  // namespace
}  // namespace retina
