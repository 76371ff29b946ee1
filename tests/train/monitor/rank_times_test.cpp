#include "train/monitor/rank_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSteps = 100;

// Ranks that end their steps together: who needs less of its own waits for the others.
std::vector<RankTimes> in_step(std::vector<RankTimes> ranks, double transfer_ms) {
  double longest_ms = 0;
  for (const RankTimes& times : ranks) longest_ms = std::max(longest_ms, times.own_ms());
  for (RankTimes& times : ranks) {
    times.comm_wait.median_ms = transfer_ms + longest_ms - times.own_ms();
  }
  return ranks;
}

std::vector<RankTimes> four_ranks() {
  std::vector<RankTimes> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back({.rank = rank,
                     .node = rank < 2 ? "node-a" : "node-b",
                     .compute = {.median_ms = 100},
                     .data_wait = {.median_ms = 5}});
  }
  return ranks;
}

TEST(Straggler, IsNobodyAmongEqualRanks) {
  EXPECT_FALSE(find_straggler(in_step(four_ranks(), 30), kSteps));
  auto ranks = four_ranks();
  ranks[2].compute.median_ms = 110;  // 9.5 %
  EXPECT_FALSE(find_straggler(in_step(ranks, 30), kSteps));
  EXPECT_FALSE(find_straggler({}, kSteps));
  EXPECT_FALSE(find_straggler({ranks[2]}, kSteps));
}

TEST(Straggler, IsTheRankThatComputesLonger) {
  auto ranks = four_ranks();
  ranks[2].compute.median_ms = 140;
  const auto straggler = find_straggler(in_step(ranks, 30), kSteps);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 2);
  EXPECT_EQ(straggler->own_ms, 145);
  EXPECT_EQ(straggler->median_ms, 105);
  EXPECT_EQ(straggler->others_wait_ms, 40);
  const std::string text = straggler_text(*straggler);
  EXPECT_THAT(text, HasSubstr("rank 2 (node-b) is slow: 145.0 ms"));
  EXPECT_THAT(text, HasSubstr("in computing; the others wait 40.0 ms"));
}

TEST(Straggler, IsTheRankThatWaitsForItsData) {
  auto ranks = four_ranks();
  ranks[0].data_wait.median_ms = 60;
  ranks[0].compute.median_ms = 102;
  const auto straggler = find_straggler(in_step(ranks, 0), kSteps);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 0);
  EXPECT_THAT(straggler_text(*straggler), HasSubstr("in waiting for data"));
}

TEST(Straggler, OfTwoRanksIsTheSlowerOne) {
  auto ranks = four_ranks();
  ranks.resize(2);
  ranks[1].compute.median_ms = 120;
  const auto straggler = find_straggler(in_step(ranks, 10), kSteps);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 1);
}

// The others' gradients still travel when the slow rank comes.
TEST(Straggler, IsNobodyWhenTheOthersDoNotWaitForIt) {
  auto ranks = four_ranks();
  ranks[3].compute.median_ms = 140;
  for (RankTimes& times : ranks) times.comm_wait.median_ms = 50;
  ranks[3].comm_wait.median_ms = 35;
  EXPECT_FALSE(find_straggler(ranks, kSteps));
}

// 16 images on 3 ranks.
std::vector<RankTimes> uneven_ranks() {
  std::vector<RankTimes> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    const double images = rank == 2 ? 6 : 5;
    ranks.push_back({.rank = rank,
                     .node = "node-a",
                     .images = images,
                     .compute = {.median_ms = 100 * images},
                     .data_wait = {.median_ms = images}});
  }
  return ranks;
}

TEST(Straggler, IsNotTheRankWithTheLargerShare) {
  EXPECT_FALSE(find_straggler(in_step(uneven_ranks(), 30), kSteps));
}

TEST(Straggler, IsJudgedByItsTimeAnImage) {
  auto ranks = uneven_ranks();
  ranks[0].compute.median_ms = 700;
  const auto straggler = find_straggler(in_step(ranks, 30), kSteps);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 0);
  EXPECT_DOUBLE_EQ(straggler->own_ms, 705);
  EXPECT_DOUBLE_EQ(straggler->median_ms, 505);
  EXPECT_FALSE(straggler->waits_for_data);
  EXPECT_THAT(straggler_text(*straggler),
              HasSubstr("against 505.0 ms on the median rank for the same number of images"));
  // 20 % slower on 5 images is as fast as the others are on 6: nobody waits for it.
  ranks[0].compute.median_ms = 600;
  EXPECT_FALSE(find_straggler(in_step(ranks, 30), kSteps));
}

TEST(Straggler, NeedsEnoughStepsToJudge) {
  auto ranks = four_ranks();
  ranks[2].compute.median_ms = 140;
  EXPECT_FALSE(find_straggler(in_step(ranks, 30), 7));
  EXPECT_TRUE(find_straggler(in_step(ranks, 30), 8));
}

TEST(RankLedger, GathersMediansAndSumsOfEachRankOnRankZero) {
  ThreadWorld world({.ring = {.ranks = 3}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    RankLedger ledger;
    const double scale = comm.rank() + 1;
    const auto add = [&](double step_ms, double data_wait_ms, double comm_wait_ms) {
      ledger.add({.images = 5 + comm.rank(),
                  .step_ms = step_ms * scale,
                  .data_wait_ms = data_wait_ms,
                  .comm_wait_ms = comm_wait_ms});
    };
    add(100, 20, 30);
    add(1000, 20, 30);
    add(200, 10, 40);
    EXPECT_EQ(ledger.step_count(), 3);
    const auto ranks = ledger.gather(comm);
    EXPECT_EQ(ledger.step_count(), 0);
    ASSERT_EQ(ranks.size(), comm.is_root() ? 3U : 0U);
    if (!comm.is_root()) return;
    EXPECT_EQ(ranks[1].rank, 1);
    EXPECT_EQ(ranks[1].images, 6);
    EXPECT_EQ(ranks[1].compute.median_ms, 350);
    EXPECT_EQ(ranks[1].compute.sum_ms, 150 + 1950 + 350);
    EXPECT_EQ(ranks[2].data_wait.sum_ms, 50);
    EXPECT_EQ(ranks[2].comm_wait.median_ms, 30);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(Throughput, NamesTheSlowestRankAndLeavesTheFirstStepsOut) {
  ThreadWorld world({.ring = {.ranks = 3}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    Throughput throughput;
    EXPECT_EQ(throughput.summary(comm), "") << "no steps";
    const double wait_ms[] = {100, 250, 0};
    for (int i = 0; i < 12; ++i) {
      const double step_ms = i < 2 ? 60000 : 500;
      throughput.add(12, {.images = 4,
                          .step_ms = step_ms,
                          .comm_wait_ms = wait_ms[static_cast<std::size_t>(comm.rank())]});
    }
    EXPECT_EQ(throughput.summary(comm),
              comm.is_root() ? "images/s in total   24.00 over 10 steps, 3 ranks\n"
                               "images/s per rank   mean 11.33, least 8.00 (rank 2), most 16.00 "
                               "(rank 1), spread 70.6 %\n"
                             : "");
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(RankTable, ShowsTheSlowestFirstAndTellsWhatItLeavesOut) {
  auto ranks = four_ranks();
  ranks[3].compute.median_ms = 140;
  EXPECT_EQ(rank_table(ranks, 5).rows.at(0).at(0), "3 (node-b)");
  EXPECT_EQ(rank_table(ranks, 5).rows.at(0).at(1), "") << "not known";
  EXPECT_EQ(rank_table(uneven_ranks(), 5).rows.at(0).at(0), "0 (node-a)") << "all are as fast";
  EXPECT_EQ(rank_table(uneven_ranks(), 5).rows.at(2).at(1), "6");
  ranks.resize(40);
  const Table table = rank_table(ranks, 5);
  EXPECT_EQ(table.rows.size(), 32U);
  EXPECT_THAT(table.note, HasSubstr("32 slowest of 40"));
}

}  // namespace
}  // namespace retina
