#include "shared/watch/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/cat.h"
#include "shared/comm/activity.h"

namespace retina {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Operation bucket(int number, std::uint64_t count = 1048576) {
  Operation operation{.kind = CollectiveKind::kAllReduce, .type = ElementType::kFloat32};
  operation.count = count;
  operation.set_label("bucket " + std::to_string(number));
  return operation;
}

// A rank that was in `step`, called `operations` and is inside the last, or out of it again.
RankView rank_in(int rank, const std::vector<Operation>& operations, bool inside,
                 std::int64_t step = 812) {
  Activity activity(rank);
  activity.set_step(step);
  for (const Operation& operation : operations) {
    activity.begin(operation);
    activity.end();
  }
  RankView view{.state = activity.state()};
  view.state.in_collective = inside ? 1 : 0;
  view.state.in_collective_s = view.state.in_phase_s = view.state.quiet_s = 0;
  view.state.excused_s = 0;
  view.state.median_step_s = 1;
  if (!inside) view.state.phase = Phase::kDataWait;
  return view;
}

FailureDetector detector_of(const WatchOptions& options = {}) {
  return {options, {"node-a", "node-a", "node-b", "node-b"}};
}

const std::vector<Operation> kAll = {bucket(4), bucket(5)}, kBehind = {bucket(4)};

TEST(FailureDetector, NamesManyRanksInOneShortLine) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 1024; ++rank) hosts.push_back("node-" + std::to_string(rank / 8));
  const FailureDetector detector({}, hosts);
  EXPECT_EQ(detector.names({3, 4, 5, 7}), "ranks 3-5, 7 (node-0)");
  EXPECT_EQ(detector.names({6, 7, 8, 9, 10}), "ranks 6, 7 (node-0) and ranks 8-10 (node-1)");
  std::vector<int> rack;
  for (int rank = 512; rank < 576; ++rank) rack.push_back(rank);
  EXPECT_EQ(detector.names(rack), "64 ranks on 8 nodes (512-575)");
}

TEST(FailureDetector, SaysNothingOfRanksThatWorkAndWait) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kBehind, false)};
  views[0].state.in_collective_s = 4.9;
  FailureDetector detector = detector_of();
  EXPECT_FALSE(detector.diagnose(views, 0.3));
  EXPECT_THAT(detector.warnings(views, 0), IsEmpty());
}

TEST(FailureDetector, NamesTheRankThatDiedWhereItWasSeenAndWhereTheOthersWait) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(3, kBehind, false)};
  views[1].gone = true;
  views[1].state.phase = Phase::kDataDecode;
  const auto diagnosis = detector_of().diagnose(views, 0.2);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kDied);
  EXPECT_EQ(
      diagnosis->message,
      "rank 3 (node-b) died (last seen in data.decode of step 812, 0.2 s ago); others wait in "
      "bucket 5 of step 812");
  EXPECT_EQ(diagnosis->hint, "run the same command again");
}

TEST(FailureDetector, TakesSilenceForDeathAfterTheLimitOnly) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(3, kBehind, false)};
  const auto after = [&](double now_s, const WatchOptions& options) {
    views[0].heard_s = now_s;
    return detector_of(options).diagnose(views, now_s);
  };
  // Clouds freeze a machine for up to 30 s.
  EXPECT_FALSE(after(31, {}));
  EXPECT_FALSE(after(59.9, {}));
  const auto diagnosis = after(60.1, {});
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kSilent);
  EXPECT_THAT(diagnosis->message, HasSubstr("rank 3 (node-b) is stopped or cut off"));
  EXPECT_THAT(diagnosis->hint, HasSubstr("--stall-timeout"));
  EXPECT_FALSE(after(299, {.stall_timeout_s = 300}));
  EXPECT_FALSE(after(6.9, {.stall_timeout_s = 7}));
  EXPECT_TRUE(after(7.1, {.stall_timeout_s = 7}));
}

TEST(FailureDetector, WarnsOfASilentRankBeforeItIsGivenUp) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(3, kBehind, false)};
  FailureDetector detector = detector_of();
  views[0].heard_s = 4.9;
  EXPECT_THAT(detector.warnings(views, 4.9), IsEmpty());
  views[0].heard_s = 5.1;
  EXPECT_THAT(detector.warnings(views, 5.1),
              ElementsAre("rank 3 (node-b) has not been heard of for 5.1 s; after 60 s "
                          "(--stall-timeout) it is taken for lost"));
  EXPECT_THAT(detector.warnings(views, 5.2), IsEmpty());
}

TEST(FailureDetector, HurriesAfterASigtermForRanksThatWereSilentBeforeAndNotForLong) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(2, kAll, true),
                              rank_in(3, kAll, true)};
  const auto at = [&](FailureDetector& detector, double now_s) {
    views[0].heard_s = now_s;
    return detector.diagnose(views, now_s);
  };
  FailureDetector detector = detector_of();
  views[1].heard_s = 99.2;
  views[2].heard_s = 99.9;  // on the way to a checkpoint
  detector.shorten_timeouts(100);
  detector.shorten_timeouts(100.5);  // the signal stays
  EXPECT_FALSE(at(detector, 100.6));
  const auto diagnosis = at(detector, 100.8);
  ASSERT_TRUE(diagnosis);
  EXPECT_THAT(diagnosis->ranks, ElementsAre(2));
  // Whoever sent heartbeats until the signal has the usual limit, and so has everybody later.
  views[1].heard_s = 99.9;
  EXPECT_FALSE(at(detector, 101.9));
  views[1].heard_s = 99.2;
  EXPECT_FALSE(at(detector, 102.1));
  EXPECT_TRUE(at(detector, 159.3));
}

TEST(FailureDetector, NamesAllRanksOfACutOffNodeTogether) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kAll, true),
                              rank_in(2, kAll, true), rank_in(3, kAll, true)};
  views[0].heard_s = views[1].heard_s = 60.1;
  views[3].heard_s = 0.2;  // its last heartbeat was a little later
  const auto diagnosis = detector_of().diagnose(views, 60.1);
  ASSERT_TRUE(diagnosis);
  EXPECT_THAT(diagnosis->ranks, ElementsAre(2, 3));
  EXPECT_THAT(diagnosis->message, HasSubstr("ranks 2, 3 (node-b) are stopped or cut off"));
}

TEST(FailureDetector, GivesTheLauncherTimeWhenAWholeNodeIsSilentOnly) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kAll, true),
                              rank_in(2, kAll, true), rank_in(3, kAll, true)};
  const FailureDetector detector = detector_of();
  const auto wait_s = [&](const std::vector<RankView>& seen) {
    const auto diagnosis = detector.diagnose(seen, 60.1);
    return diagnosis ? detector.launcher_wait_s(*diagnosis, seen) : -1;
  };
  views[0].heard_s = views[1].heard_s = 60.1;
  EXPECT_EQ(wait_s(views), 3.5);
  views[3].heard_s = 60.1;  // of the same node: rank 2 is only stopped
  EXPECT_EQ(wait_s(views), 0);
  views[3].heard_s = 0;
  views[3].gone = true;  // its connection was reset: the node's end is known
  EXPECT_EQ(wait_s(views), 0);
}

TEST(FailureDetector, NamesBothSidesOfASwappedCollective) {
  const std::vector<Operation> swapped = {bucket(4), bucket(6)};
  const auto diagnosis = detector_of().diagnose(
      {rank_in(0, kAll, true), rank_in(1, kAll, true), rank_in(2, swapped, true)}, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kMismatch);
  EXPECT_THAT(diagnosis->ranks, ElementsAre(2));
  EXPECT_THAT(diagnosis->message, HasSubstr("number 2 of step 812"));
  EXPECT_THAT(diagnosis->message,
              HasSubstr("bucket 5, all_reduce (sum) of 1,048,576 f32 on ranks 0, 1 (node-a)"));
  EXPECT_THAT(diagnosis->message,
              HasSubstr("bucket 6, all_reduce (sum) of 1,048,576 f32 on rank 2 (node-b)"));
}

TEST(FailureDetector, SeesAMismatchThatMpiLetPass) {
  // Other sizes, and both are long past it.
  std::vector<Operation> right = kAll, wrong = {bucket(4), bucket(5, 7)};
  for (int i = 0; i < 3; ++i) {
    right.push_back(bucket(i));
    wrong.push_back(bucket(i));
  }
  const auto diagnosis =
      detector_of().diagnose({rank_in(0, right, false), rank_in(1, wrong, false)}, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_THAT(diagnosis->message, HasSubstr("all_reduce (sum) of 7 f32 on rank 1 (node-a)"));
}

TEST(FailureDetector, SeesAMismatchOfRanksThatHaveNoRecentOperationInCommon) {
  std::vector<Operation> right, wrong;
  for (int i = 0; i < 300; ++i) {
    right.push_back(bucket(0));
    wrong.push_back(bucket(i == 100 ? 1 : 0));
  }
  wrong.resize(270, bucket(0));
  EXPECT_TRUE(detector_of().diagnose({rank_in(0, right, false), rank_in(1, wrong, false)}, 0));
  wrong[100] = bucket(0);
  EXPECT_FALSE(detector_of().diagnose({rank_in(0, right, false), rank_in(1, wrong, false)}, 0));
}

TEST(FailureDetector, NamesTheRankThatLeftWhenAnotherWaitsForIt) {
  std::vector<RankView> views{rank_in(0, kBehind, false), rank_in(1, kBehind, false)};
  views[1].state.left = 1;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
  views[0] = rank_in(0, kAll, true);
  const auto diagnosis = detector_of().diagnose(views, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kLeft);
  EXPECT_EQ(diagnosis->message,
            "rank 1 (node-a) ended its work early and never entered bucket 5 of step 812, where "
            "rank 0 (node-a) waits");
}

TEST(FailureDetector, DoesNotMindTheConnectionOrSilenceOfARankThatLeft) {
  std::vector<RankView> views{rank_in(0, kAll, false), rank_in(1, kAll, false)};
  views[1].state.left = 1;
  views[1].gone = true;
  views[0].heard_s = 100;
  EXPECT_FALSE(detector_of().diagnose(views, 100));
}

TEST(FailureDetector, WarnsOnceOfAStragglerAndEndsTheJobPastTheLimitOnly) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kBehind, false)};
  views[0].state.in_collective_s = 6;
  FailureDetector detector = detector_of();
  EXPECT_THAT(detector.warnings(views, 0),
              ElementsAre("rank 1 (node-a) is slow: others have waited 6.0 s for it in bucket 5 of "
                          "step 812, it is in data.wait"));
  views[0].state.in_collective_s = 59;
  EXPECT_THAT(detector.warnings(views, 0), IsEmpty());
  EXPECT_FALSE(detector.diagnose(views, 0));
  views[0].state.in_collective_s = 61;
  const auto diagnosis = detector.diagnose(views, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kStalled);
  EXPECT_THAT(diagnosis->message, HasSubstr("rank 1 (node-a) never entered bucket 5 of step 812"));
  EXPECT_THAT(diagnosis->hint, HasSubstr("--stall-timeout"));
}

// Rank 0 waited for rank 1 in an earlier one, and has not been heard of since.
TEST(FailureDetector, CountsNoWaitInACollectiveThatHasEnded) {
  const std::vector<Operation> before = {}, first = {bucket(4)}, second = {bucket(4), bucket(5)};
  std::vector<RankView> views{rank_in(0, first, true), rank_in(1, first, false),
                              rank_in(2, second, true)};
  views[0].state.in_collective_s = 70;
  views[2].state.in_collective_s = 1;
  FailureDetector detector = detector_of();
  EXPECT_THAT(detector.warnings(views, 0), IsEmpty());
  EXPECT_FALSE(detector.diagnose(views, 0));
  views[1] = rank_in(1, before, false);
  EXPECT_THAT(detector.warnings(views, 0), testing::SizeIs(1));
  ASSERT_TRUE(detector.diagnose(views, 0));
  EXPECT_THAT(detector.diagnose(views, 0)->ranks, ElementsAre(1));
}

TEST(FailureDetector, WaitsTenStepsWhereStepsAreLong) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kBehind, false)};
  views[1].state.median_step_s = 20;
  views[0].state.in_collective_s = 190;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
  views[0].state.in_collective_s = 201;
  EXPECT_TRUE(detector_of().diagnose(views, 0));
}

TEST(FailureDetector, NeverEndsTheJobForASlowDisk) {
  for (const Phase phase : {Phase::kCheckpointWrite, Phase::kMetricsWrite}) {
    std::vector<RankView> views{rank_in(0, kBehind, false), rank_in(1, kAll, true)};
    views[0].state.phase = phase;
    const FailureDetector detector = detector_of();
    views[1].state.in_collective_s = 1e5;
    EXPECT_FALSE(detector.diagnose(views, 0));
    // Just after: the time that the others waited was the disk's.
    views[0].state.phase = Phase::kUpdate;
    views[0].state.excused_s = 1e5;
    EXPECT_FALSE(detector.diagnose(views, 0));
  }
}

TEST(FailureDetector, WaitsForAsLongAsARankOutsideOfStepsComesOn) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kBehind, false)};
  views[0].state.in_collective_s = 7200;
  views[1].state.phase = Phase::kValidate;
  views[1].state.quiet_s = 1700;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
  views[1].state.quiet_s = 1900;
  const auto diagnosis = detector_of().diagnose(views, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kStalled);
  EXPECT_THAT(diagnosis->ranks, ElementsAre(1));
}

TEST(FailureDetector, EndsAJobThatOneRankDoesNotLeaveThoughOthersHave) {
  std::vector<RankView> views{rank_in(0, kAll, false), rank_in(1, kAll, false)};
  views[1].state.phase = Phase::kStart;
  views[1].state.quiet_s = 1900;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
  views[0].state.left = 1;
  const auto diagnosis = detector_of().diagnose(views, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_THAT(diagnosis->ranks, ElementsAre(1));
  EXPECT_EQ(diagnosis->message,
            "rank 1 (node-a) has been in start of step 812 for 1900.0 s; others have ended their "
            "work");
  views[1].state.quiet_s = 1700;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
}

TEST(FailureDetector, EndsACollectiveThatEverybodyEnteredAndNobodyLeaves) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kAll, true)};
  views[0].state.in_collective_s = views[0].state.quiet_s = 100;  // waited for the other first
  views[1].state.in_collective_s = views[1].state.quiet_s = 59;
  for (RankView& view : views) view.state.phase = Phase::kReduce;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
  views[1].state.in_collective_s = views[1].state.quiet_s = 61;
  const auto diagnosis = detector_of().diagnose(views, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_THAT(diagnosis->message, HasSubstr("cannot finish bucket 5 of step 812"));
}

// One that was stopped inside is the reason, and named as soon as it has been silent long enough.
TEST(FailureDetector, BlamesNobodyForACollectiveWhereOneIsSilent) {
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kAll, true)};
  for (RankView& view : views) {
    view.state.in_collective_s = view.state.quiet_s = 61;
    view.state.phase = Phase::kReduce;
  }
  views[0].heard_s = 3;
  EXPECT_FALSE(detector_of().diagnose(views, 3));
  views[0].heard_s = 60.1;
  const auto diagnosis = detector_of().diagnose(views, 60.1);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, DiagnosisKind::kSilent);
  EXPECT_THAT(diagnosis->ranks, ElementsAre(1));
}

TEST(FailureDetector, DoesNotMistakeAStateFromBeforeForAStall) {
  // Rank 1 was late and is through; what rank 0 sent last is from just before that.
  std::vector<RankView> views{rank_in(0, kAll, true), rank_in(1, kAll, false)};
  views[0].state.in_collective_s = views[0].state.quiet_s = 100;
  views[1].state.quiet_s = 0.1;
  EXPECT_FALSE(detector_of().diagnose(views, 0));
}

TEST(FailureDetector, EndsAJobWhoseRanksAllWaitForTheirDisks) {
  std::vector<RankView> views{rank_in(0, kAll, false), rank_in(1, kAll, false)};
  for (RankView& view : views) view.state.quiet_s = view.state.in_phase_s = 61;
  const auto diagnosis = detector_of().diagnose(views, 0);
  ASSERT_TRUE(diagnosis);
  EXPECT_THAT(diagnosis->message, HasSubstr("has been in data.wait of step 812 for 61.0 s"));
}

}  // namespace
}  // namespace retina
