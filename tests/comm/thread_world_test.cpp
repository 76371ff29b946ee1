#include "tests/support/ranks/thread_world.h"

#include <gtest/gtest.h>

#include <thread>

#include "shared/base/error.h"
#include "tests/comm/elements.h"

namespace retina {
namespace {

constexpr LinkCost kFast{.latency_seconds = 0.25, .bytes_per_second = 1024};
constexpr LinkCost kSlow{.latency_seconds = 2, .bytes_per_second = 64};

TEST(RingTopology, NodesShareARingOfTheSlowerLink) {
  const RingTopology ring{.ranks = 8,
                          .ranks_per_node = 2,
                          .intra_node = {.latency_seconds = 1, .bytes_per_second = 100},
                          .inter_node = {.latency_seconds = 10, .bytes_per_second = 50}};
  EXPECT_EQ(ring.nodes(), 4);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(ring, 200), 8 * 1 + 6 * 10 + 1.75 * 200 / 50);
  const RingTopology alone{.ranks = 1, .intra_node = ring.intra_node};
  EXPECT_EQ(all_reduce_seconds(alone, 200), 0);
  EXPECT_EQ(broadcast_seconds(alone, 200), 0);
  EXPECT_EQ(gather_seconds(alone, 200), 0);
}

TEST(ThreadWorld, AnAllReduceEndsAtTheLastEntryPlusTheRingsCost) {
  ThreadWorld world({.ring = {.ranks = 4, .intra_node = kFast}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    comm.advance(10 + comm.rank());
    std::vector<float> data(512);
    comm.all_reduce(data.data(), data.size(), ElementType::kFloat32, ReduceOp::kSum);
    // 2(n-1) messages and 2(n-1)/n of 2048 bytes.
    EXPECT_EQ(comm.now_seconds(), 13 + 6 * 0.25 + 1.5 * 2);
    comm.all_reduce_ordered(data.data(), data.size(), ElementType::kBFloat16);
    EXPECT_EQ(comm.now_seconds(), 17.5 + 6 * 0.25 + 1.5);
  });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(outcomes[rank].message, "");
    EXPECT_EQ(outcomes[rank].seconds, 20.5);
    // Waiting counts: rank 0 came 3 s before rank 3.
    EXPECT_EQ(outcomes[rank].stats.all_reduce.seconds, 7.5 - static_cast<double>(rank));
  }
}

TEST(ThreadWorld, SlowLinksBetweenNodesSetThePace) {
  // 8 ranks on 2 nodes: 12 fast messages and 2 slow ones, the slow link's bandwidth.
  ThreadWorld world(
      {.ring = {.ranks = 8, .ranks_per_node = 4, .intra_node = kFast, .inter_node = kSlow}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    std::vector<char> data(128);
    comm.all_reduce(data.data(), data.size(), ElementType::kUint8, ReduceOp::kMax);
    EXPECT_EQ(comm.local_size(), 4);
    EXPECT_EQ(comm.local_rank(), comm.rank() % 4);
  });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.message, "");
    EXPECT_EQ(outcome.seconds, 12 * 0.25 + 2 * 2 + 1.75 * 2);
  }
}

TEST(ThreadWorld, OtherCollectivesCostTheirMessages) {
  ThreadWorld world({.ring = {.ranks = 5, .intra_node = kFast}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    std::vector<char> data(1024);
    comm.broadcast(data.data(), data.size(), ElementType::kUint8, 3);
    EXPECT_EQ(comm.now_seconds(), 3 * 0.25 + 1);
    comm.barrier();
    EXPECT_EQ(comm.now_seconds(), 1.75 + 3 * 0.25);
    comm.gather(std::string(comm.rank() == 2 ? 512 : 0, 'x'), 0);
    EXPECT_EQ(comm.now_seconds(), 2.5 + 4 * 0.25 + 0.5);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ThreadWorld, TheLastNodeMayHaveFewerRanks) {
  ThreadWorld world({.ring = {.ranks = 7, .ranks_per_node = 3}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    EXPECT_EQ(comm.local_rank(), comm.rank() % 3);
    EXPECT_EQ(comm.local_size(), comm.rank() < 6 ? 3 : 1);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ThreadWorld, RanksMayBeTakenForOnesOwnThreads) {
  ThreadWorld world({.ring = {.ranks = 2}});
  auto first = world.take(0), second = world.take(1);
  EXPECT_THROW(world.take(1), Error);
  EXPECT_THROW(world.take(2), Error);
  std::thread other([rank = std::move(second)] { EXPECT_EQ(rank->all_reduce_sum(2), 3); });
  EXPECT_EQ(first->all_reduce_sum(1), 3);
  other.join();
  EXPECT_THROW(first->barrier(), Error);
}

TEST(ThreadWorld, OrderedSumIsSerialFor2To7RanksAndAnyCut) {
  constexpr std::uint64_t kSeed = 71;
  RecordProperty("seed", static_cast<int>(kSeed));
  for (int ranks = 2; ranks <= 7; ++ranks) {
    for (const ElementType type : kFloatTypes) {
      std::vector<Elements> inputs;
      for (int rank = 0; rank < ranks; ++rank) {
        inputs.emplace_back(type, 1000);
        inputs.back().fill_randomly(kSeed, rank);
      }
      const std::string want = serial_sum(inputs, type).bits();
      for (const std::size_t piece : {1000UL, 999UL, 333UL, 17UL, 1UL}) {
        const auto outcomes = ThreadWorld({.ring = {.ranks = ranks}}).run([&](ThreadRank& comm) {
          Elements mine = inputs[static_cast<std::size_t>(comm.rank())];
          for (std::size_t done = 0; done < 1000; done += piece) {
            comm.all_reduce_ordered(mine.at(done), std::min(piece, 1000 - done), type);
          }
          EXPECT_EQ(mine.bits(), want) << ranks << " " << element_name(type) << " " << piece;
        });
        for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "") << "seed " << kSeed;
      }
    }
  }
}

TEST(ThreadWorld, AThousandRanksMeetInOneProcess) {
  ThreadWorld world({.ring = {.ranks = 1024, .ranks_per_node = 8, .intra_node = kFast}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    comm.advance(comm.rank());
    std::vector<float> data(16, 1);
    comm.all_reduce(data.data(), data.size(), ElementType::kFloat32, ReduceOp::kSum);
    EXPECT_EQ(data[15], 1024);
    EXPECT_EQ(comm.all_reduce_max(comm.rank()), 1023);
  });
  for (const auto& outcome : outcomes) {
    ASSERT_EQ(outcome.message, "");
    ASSERT_EQ(outcome.seconds, outcomes[0].seconds);
    ASSERT_GE(outcome.seconds, 1023);
  }
}

TEST(ThreadWorld, OneDeathAmongAThousandIsToldToAll) {
  ThreadWorld world({.ring = {.ranks = 1024},
                     .faults = {{.rank = 700, .collective = 1, .kind = RankFault::Kind::kDie}}});
  const auto outcomes = world.run([](ThreadRank& comm) {
    comm.barrier();
    comm.barrier();
  });
  for (std::size_t rank = 0; rank < 1024; ++rank) {
    ASSERT_EQ(outcomes[rank].message,
              rank == 700 ? "rank 700: died after 1 collective, as scripted"
                          : "collective 1, barrier: rank 700 died after 1 collective");
  }
}

}  // namespace
}  // namespace retina
