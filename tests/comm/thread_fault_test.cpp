#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using Kind = RankFault::Kind;
using Body = std::function<void(ThreadRank&)>;

// Collectives 0 to 3 of a rank; each other thing that a rank does comes on top.
void four_sums(ThreadRank& comm) {
  for (int i = 0; i < 4; ++i) {
    std::vector<float> data(1000, 1);
    comm.all_reduce(data.data(), data.size(), ElementType::kFloat32, ReduceOp::kSum);
    for (const float sum : data) ASSERT_EQ(sum, static_cast<float>(comm.size()));
  }
}

ThreadWorldOptions world_of(int ranks, std::vector<RankFault> faults = {}) {
  return {.ring = {.ranks = ranks}, .faults = std::move(faults)};
}

std::vector<RankOutcome> run(const ThreadWorldOptions& options, const Body& body) {
  return ThreadWorld(options).run(body);
}

void expect_rank_failure(const RankOutcome& outcome, const std::string& message) {
  EXPECT_EQ(outcome.message, message);
  ASSERT_NE(outcome.failure, nullptr);
  try {
    std::rethrow_exception(outcome.failure);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRankFailure);
    EXPECT_EQ(error.hint(), "run the same command again");
  }
}

void expect_all(const std::vector<RankOutcome>& outcomes, const std::string& message) {
  for (const auto& outcome : outcomes) expect_rank_failure(outcome, message);
}

TEST(ThreadFault, WithoutFaultsNothingFails) {
  for (const auto& outcome : run(world_of(8), four_sums)) EXPECT_EQ(outcome.message, "");
}

TEST(ThreadFault, AnotherCountNamesBothSides) {
  expect_all(
      run(world_of(8, {{.rank = 3, .collective = 2, .kind = Kind::kOtherCount}}), four_sums),
      "collective 2: ranks call different operations (got all_reduce (sum) of 1,001 f32 from "
      "rank 3, want all_reduce (sum) of 1,000 f32 as from ranks 0-2, 4-7)");
}

TEST(ThreadFault, SwappedCollectivesOfOneSizeAreTold) {
  expect_all(run(world_of(4, {{.rank = 0, .collective = 1, .kind = Kind::kSwap}}), four_sums),
             "collective 1: ranks call different operations (got all_reduce (sum) of 1,000 f32 as "
             "collective 2 from rank 0, want all_reduce (sum) of 1,000 f32 as from ranks 1-3)");
}

TEST(ThreadFault, OtherTypeRootAndOperationAreMismatches) {
  const auto mismatch = [&](const Body& odd, const Body& even) {
    const auto outcomes =
        run(world_of(3), [&](ThreadRank& comm) { (comm.rank() == 1 ? odd : even)(comm); });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, outcomes[0].message);
    return outcomes[0].message;
  };
  const auto sum = [](ElementType type, ReduceOp op) {
    return [=](ThreadRank& comm) {
      double value = 0;
      comm.all_reduce(&value, 1, type, op);
    };
  };
  const auto broadcast = [](int root) {
    return [=](ThreadRank& comm) {
      double value = 0;
      comm.broadcast(&value, 1, ElementType::kFloat64, root);
    };
  };
  const Body gather = [](ThreadRank& comm) { comm.gather("", 0); };
  const Body ordered = [](ThreadRank& comm) {
    double value = 0;
    comm.all_reduce_ordered(&value, 1, ElementType::kFloat64);
  };
  const Body barrier = [](ThreadRank& comm) { comm.barrier(); };
  const std::string start = "collective 0: ranks call different operations (got ";
  const auto f64_sum = sum(ElementType::kFloat64, ReduceOp::kSum);
  EXPECT_EQ(mismatch(sum(ElementType::kInt64, ReduceOp::kSum), f64_sum),
            start +
                "all_reduce (sum) of 1 i64 from rank 1, "
                "want all_reduce (sum) of 1 f64 as from ranks 0, 2)");
  EXPECT_EQ(mismatch(sum(ElementType::kFloat64, ReduceOp::kMax), f64_sum),
            start +
                "all_reduce (max) of 1 f64 from rank 1, "
                "want all_reduce (sum) of 1 f64 as from ranks 0, 2)");
  EXPECT_EQ(mismatch(broadcast(2), broadcast(0)),
            start +
                "broadcast (root 2) of 1 f64 from rank 1, "
                "want broadcast (root 0) of 1 f64 as from ranks 0, 2)");
  EXPECT_EQ(mismatch(ordered, f64_sum), start +
                                            "all_reduce_ordered of 1 f64 from rank 1, "
                                            "want all_reduce (sum) of 1 f64 as from ranks 0, 2)");
  EXPECT_EQ(mismatch(barrier, gather),
            start + "barrier from rank 1, want gather (root 0) as from ranks 0, 2)");
}

TEST(ThreadFault, ADeadRankIsNamedToAllOthers) {
  const auto outcomes =
      run(world_of(8, {{.rank = 5, .collective = 3, .kind = Kind::kDie}}), four_sums);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    if (rank == 5) {
      EXPECT_EQ(outcomes[rank].message, "rank 5: died after 3 collectives, as scripted");
    } else {
      expect_rank_failure(outcomes[rank],
                          "collective 3, all_reduce (sum) of 1,000 f32: rank 5 died after 3 "
                          "collectives");
    }
  }
}

TEST(ThreadFault, ARankThatLeavesEarlyIsNamed) {
  const auto outcomes = run(world_of(4), [](ThreadRank& comm) {
    comm.barrier();
    if (comm.rank() >= 2) return;
    comm.barrier();
  });
  for (std::size_t rank : {0U, 1U}) {
    expect_rank_failure(outcomes[rank], "collective 1, barrier: ranks 2-3 left after 1 collective");
  }
  for (std::size_t rank : {2U, 3U}) EXPECT_EQ(outcomes[rank].message, "");
}

TEST(ThreadFault, ARankWhoseFunctionThrowsIsNamedWithItsError) {
  const auto outcomes = run(world_of(3), [](ThreadRank& comm) {
    if (comm.rank() == 0) throw Error(ErrorKind::kIo, "out.pt: disk full");
    comm.all_reduce_sum(1);
  });
  EXPECT_EQ(outcomes[0].message, "out.pt: disk full");
  for (std::size_t rank : {1U, 2U}) {
    expect_rank_failure(outcomes[rank],
                        "collective 0, all_reduce (sum) of 1 i64: rank 0 failed after 0 "
                        "collectives (out.pt: disk full)");
  }
}

TEST(ThreadFault, AllRanksMayLeaveAtTheirOwnTimes) {
  const auto outcomes = run(world_of(8), [](ThreadRank& comm) {
    comm.barrier();
    comm.advance(comm.rank());
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ThreadFault, AfterAFailureEveryCallFailsAlike) {
  const auto outcomes =
      run(world_of(3, {{.rank = 1, .collective = 0, .kind = Kind::kDie}}), [](ThreadRank& comm) {
        std::string first;
        try {
          comm.barrier();
        } catch (const Error& error) {
          first = error.what();
        }
        EXPECT_NE(first, "");
        try {
          comm.all_reduce_sum(1);
          ADD_FAILURE() << "passed";
        } catch (const Error& error) {
          EXPECT_EQ(error.what(), first);
        }
      });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ThreadFault, AStallPastTheDeadlineNamesRankAndHowLong) {
  auto options =
      world_of(4, {{.rank = 2, .collective = 1, .kind = Kind::kStall, .stall_seconds = 75.25}});
  options.deadline_seconds = 60;
  const auto outcomes = run(options, four_sums);
  expect_all(outcomes,
             "collective 1, all_reduce (sum) of 1,000 f32: rank 2 came late (got 75.2 s after "
             "ranks 0-1, 3, want at most 60.0 s)");
  // The others gave up at the deadline.
  for (std::size_t rank : {0U, 1U, 3U}) EXPECT_EQ(outcomes[rank].seconds, 60);
  EXPECT_EQ(outcomes[2].seconds, 75.25);
}

TEST(ThreadFault, AStallWithinTheDeadlineOnlyCostsItsTime) {
  auto options =
      world_of(4, {{.rank = 2, .collective = 1, .kind = Kind::kStall, .stall_seconds = 59}});
  options.deadline_seconds = 60;
  for (const auto& outcome : run(options, four_sums)) {
    EXPECT_EQ(outcome.message, "");
    EXPECT_EQ(outcome.seconds, 59);
  }
}

// Every kind at every rank and place: all ranks end, nobody with a wrong sum, and alike each time.
TEST(ThreadFault, EveryFaultEndsAllRanksAlikeEachTime) {
  for (const Kind kind : {Kind::kDie, Kind::kStall, Kind::kSwap, Kind::kOtherCount}) {
    for (int rank = 0; rank < 3; ++rank) {
      for (int collective = 0; collective < 4; ++collective) {
        auto options = world_of(
            3, {{.rank = rank, .collective = collective, .kind = kind, .stall_seconds = 10}});
        options.deadline_seconds = 5;
        const auto first = run(options, four_sums);
        for (int repeat = 0; repeat < 3; ++repeat) {
          const auto again = run(options, four_sums);
          for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_NE(again[i].message, "");
            EXPECT_EQ(again[i].message, first[i].message);
            EXPECT_EQ(again[i].seconds, first[i].seconds);
            EXPECT_THAT(again[i].message, testing::HasSubstr(cat("rank ", rank)));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace retina
