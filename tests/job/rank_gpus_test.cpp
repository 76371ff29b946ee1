// Launchers and environment variables as ranks see their GPUs: which one each takes.
#include "shared/job/rank_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/host.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using testing::ElementsAre, testing::HasSubstr;
using Ids = std::vector<std::string>;

std::vector<int> numbers(const std::vector<RankGpus>& job) {
  std::vector<int> all;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    all.push_back(gpu_of_rank(job, static_cast<int>(rank)));
  }
  return all;
}

TEST(RankGpus, AreTakenInTurnWhereAllRanksOfANodeSeeAllOfThem) {
  const Ids all = {"a", "b", "c", "d"};
  EXPECT_THAT(numbers({{"n", all}, {"n", all}, {"n", all}, {"n", all}}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(numbers({{"n", all}, {"n", all}}), ElementsAre(0, 1)) << "fewer ranks than GPUs";
}

TEST(RankGpus, AreEachRanksOwnWhereItsLauncherShowsNoOther) {
  EXPECT_THAT(numbers({{"n", {"a"}}, {"n", {"b"}}, {"n", {"c"}}}), ElementsAre(0, 0, 0));
  EXPECT_THAT(numbers({{"n", {"a", "b"}}, {"n", {"c", "d"}}}), ElementsAre(0, 0))
      << "srun --gpus-per-task=2";
}

TEST(RankGpus, AreNeverTakenTwiceInWhateverOrderTheyAreSeen) {
  EXPECT_THAT(numbers({{"n", {"a", "b"}}, {"n", {"b", "a"}}}), ElementsAre(0, 0));
  EXPECT_THAT(numbers({{"n", {"b", "a"}}, {"n", {"b", "a", "c"}}, {"n", {"a", "b", "c"}}}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers({{"n", {"a"}}, {"n", {"a", "b"}}}), ElementsAre(0, 1));
}

TEST(RankGpus, OfOneNodeDoNotCountOnAnother) {
  const Ids both = {"a", "b"};
  EXPECT_THAT(numbers({{"n", both}, {"m", both}, {"n", both}, {"m", both}}),
              ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(numbers({{"n", {"a"}}, {"n", {"x"}}}), ElementsAre(0, 0))
      << "two machines that have the same name";
}

TEST(RankGpus, AreNoneWhereNoneIsSeen) {
  EXPECT_THAT(numbers({{"n", {}}, {"m", {"a"}}}), ElementsAre(-1, 0));
}

std::string refusal(const std::vector<RankGpus>& job, int rank) {
  try {
    gpu_of_rank(job, rank);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "";
}

TEST(RankGpus, ThatAreTooFewAreRefusedByWhoeverGetsNone) {
  const std::vector<RankGpus> job = {
      {"n", {"a", "b"}}, {"n", {"a", "b"}}, {"n", {"a", "b"}}, {"m", {"a", "b"}}};
  EXPECT_EQ(refusal(job, 1), "");
  EXPECT_EQ(refusal(job, 2), "this node has 3 ranks and 2 GPUs (want one GPU per rank)");
  EXPECT_EQ(refusal(job, 3), "");
  EXPECT_THAT(refusal({{"n", {"a"}}, {"n", {"a"}}}, 1), HasSubstr("2 ranks and 1 GPU ("));
}

TEST(RankGpus, AreToldToAllRanks) {
  const std::vector<Ids> own = {{"a", "b"}, {}, {"number 0"}};
  std::vector<std::vector<RankGpus>> told(own.size());
  ThreadWorld world({.ring = {.ranks = 3}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    told[rank] = gpus_of_ranks(comm, own[rank]);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  for (const auto& job : told) {
    ASSERT_EQ(job.size(), own.size());
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      EXPECT_EQ(job[rank].host, host_name());
      EXPECT_EQ(job[rank].ids, own[rank]);
    }
  }
}

}  // namespace
}  // namespace retina
