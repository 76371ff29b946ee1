#include "convert/verification/detection_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "convert/verification/verification.h"
#include "shared/base/error.h"

namespace retina {
namespace {

using testing::HasSubstr;

ScoredBox at(float x, float score, std::int64_t label = 0) {
  return {.box = {x, 0, x + 100, 100}, .score = score, .label = label};
}

TEST(MatchDetections, EqualListsHaveNoDifferenceWhateverTheOrderOfTies) {
  const auto result =
      match_detections({at(0, 0.9F), at(300, 0.5F)}, {at(300, 0.5F), at(0, 0.9F)}, {});
  EXPECT_EQ(result.paired_count, 2);
  EXPECT_EQ(result.largest_box_px, 0);
  EXPECT_EQ(result.largest_score, 0);
  EXPECT_EQ(result.borderline_count + result.unexplained_count, 0);
}

TEST(MatchDetections, EqualBoxesArePairedByScoreAndEqualScoresByPlace) {
  for (const std::vector<ScoredBox>& list :
       {std::vector{at(0, 0.509F), at(0, 0.506F), at(0, 0.503F), at(0, 0.495F)},
        std::vector{at(0, 0.5F), at(0.25F, 0.5F), at(0.5F, 0.5F)}}) {
    const auto result = match_detections(list, {list.rbegin(), list.rend()}, {});
    EXPECT_EQ(result.paired_count, static_cast<std::int64_t>(list.size()));
    EXPECT_EQ(result.largest_score, 0);
    EXPECT_EQ(result.largest_box_px, 0);
  }
}

TEST(MatchDetections, ReportsTheLargestDifferencesOfPairs) {
  const auto result =
      match_detections({at(0, 0.9F), at(300, 0.5F)}, {at(0.5F, 0.9F), at(300, 0.501F)}, {});
  EXPECT_EQ(result.paired_count, 2);
  EXPECT_NEAR(result.largest_box_px, 0.5, 1e-6);
  EXPECT_NEAR(result.largest_score, 0.001, 1e-6);
}

TEST(MatchDetections, MeasuresABoxOfMoreThan100PixelsByItsSide) {
  const auto box = [](float right) {
    return std::vector<ScoredBox>{{.box = {0, 0, right, 50}, .score = 0.9F}};
  };
  EXPECT_NEAR(match_detections(box(800), box(800.5F), {}).largest_box_px, 0.5 / 8, 1e-6);
  EXPECT_NEAR(match_detections(box(40), box(40.5F), {}).largest_box_px, 0.5, 1e-6);
}

TEST(MatchDetections, TooManyOnAThresholdSayWhyAndWhatToDo) {
  EXPECT_NO_THROW(require_equal({.paired_count = 100, .borderline_count = 25}, "m.onnx"));
  try {
    require_equal({.paired_count = 100, .borderline_count = 26}, "m.onnx");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kAnswerNo);
    EXPECT_THAT(error.what(), HasSubstr("26 detections differ, 100 are equal: scores or "
                                        "overlaps lie so close together that rounding"));
    EXPECT_THAT(error.hint(), HasSubstr("--onnx-static"));
  }
}

TEST(MatchDetections, AnotherClassIsAnotherDetection) {
  const auto result = match_detections({at(0, 0.9F, 1)}, {at(0, 0.9F, 2)}, {});
  EXPECT_EQ(result.paired_count, 0);
  EXPECT_EQ(result.unexplained_count, 2);
  EXPECT_THAT(result.first_unexplained, HasSubstr("only the checkpoint finds class 1"));
}

TEST(MatchDetections, ACoordinateThatIsNoNumberPairsWithNothing) {
  const float nan = std::nanf("");
  EXPECT_EQ(match_detections({at(nan, 0.9F)}, {at(nan, 0.9F)}, {}).unexplained_count, 2);
}

TEST(MatchDetections, ALoneOneAtTheScoreThresholdIsBorderline) {
  EXPECT_EQ(match_detections({at(0, 0.05005F)}, {}, {}).borderline_count, 1);
  EXPECT_EQ(match_detections({at(0, 0.06F)}, {}, {}).unexplained_count, 1);
}

TEST(MatchDetections, ALoneOneAtTheEndOfAFullListIsBorderline) {
  const MatchContext full{.max_detections = 1};
  const auto result = match_detections({at(0, 0.7F)}, {at(300, 0.70005F)}, full);
  EXPECT_EQ(result.borderline_count, 2);
  EXPECT_EQ(match_detections({at(0, 0.8F)}, {at(300, 0.7F)}, full).unexplained_count, 1);
}

TEST(MatchDetections, ALoneOneWhoseOverlapLiesOnTheThresholdIsBorderline) {
  // Shifted by a third of its width, a box overlaps itself by exactly one half.
  const auto result = match_detections({at(0, 0.9F), at(100.F / 3, 0.5F)}, {at(0, 0.9F)}, {});
  EXPECT_EQ(result.paired_count, 1);
  EXPECT_EQ(result.borderline_count, 1);
  EXPECT_EQ(match_detections({at(0, 0.9F), at(60, 0.5F)}, {at(0, 0.9F)}, {}).unexplained_count, 1);
}

ScoreMatch score_match(const ClassScoreRow& want, const ClassScoreRow& got) {
  ScoreMatch match;
  match.add(want, got);
  return match;
}

TEST(ScoreMatch, RoundingIsEqualAndIsReported) {
  const ScoreMatch found =
      score_match({.logits = {2, -1}, .probabilities = {0.9F, 0.1F}},
                  {.logits = {2.0001F, -1}, .probabilities = {0.900005F, 0.1F}});
  EXPECT_EQ(found.unequal_count, 0) << found.first_unequal;
  EXPECT_EQ(found.same_best_count, 1);
  EXPECT_NEAR(found.largest_probability, 5e-6, 1e-7);
  EXPECT_NEAR(found.largest_logit, 5e-5, 1e-6);
}

TEST(ScoreMatch, AProbabilityBeyondToleranceIsUnequal) {
  const ScoreMatch found = score_match({.logits = {0, 0}, .probabilities = {0.5F, 0.5F}},
                                       {.logits = {0, 0}, .probabilities = {0.50002F, 0.5F}});
  EXPECT_EQ(found.unequal_count, 1);
  EXPECT_THAT(found.first_unequal, HasSubstr("probabilities differ"));
}

// The probabilities of such images tell nothing of the network.
TEST(ScoreMatch, LogitsCountWhereAClassIsCertain) {
  const ScoreMatch found = score_match({.logits = {40, -60}, .probabilities = {1, 0}},
                                       {.logits = {40, -59}, .probabilities = {1, 0}});
  EXPECT_EQ(found.unequal_count, 1);
  EXPECT_THAT(found.first_unequal, HasSubstr("logits differ"));
}

TEST(ScoreMatch, AnotherBestClassIsEqualOnlyWhereTheyTie) {
  const ScoreMatch tie = score_match({.logits = {0, 0}, .probabilities = {0.500004F, 0.499996F}},
                                     {.logits = {0, 0}, .probabilities = {0.499996F, 0.500004F}});
  EXPECT_EQ(tie.unequal_count, 0) << tie.first_unequal;
  EXPECT_EQ(tie.same_best_count, 0);
  const ScoreMatch other = score_match({.logits = {0, 0}, .probabilities = {0.500006F, 0.499994F}},
                                       {.logits = {0, 0}, .probabilities = {0.499998F, 0.500002F}});
  EXPECT_EQ(other.unequal_count, 1);
  EXPECT_THAT(other.first_unequal, HasSubstr("its best class is 1 (want 0)"));
}

TEST(ScoreMatch, NothingEqualsANumberThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const ClassScoreRow row{.logits = {bad, 0}, .probabilities = {bad, 0}};
    EXPECT_EQ(score_match(row, row).unequal_count, 1);
  }
}

TEST(ScoreMatch, TheWorstOfAllImagesCounts) {
  const ClassScoreRow same{.logits = {1, 0}, .probabilities = {0.7F, 0.3F}};
  ScoreMatch total = score_match(same, same);
  total.add(same, {.logits = {1, 0.5F}, .probabilities = {0.6F, 0.4F}});
  EXPECT_EQ(total.image_count, 2);
  EXPECT_EQ(total.same_best_count, 2);
  EXPECT_EQ(total.unequal_count, 1);
  EXPECT_NEAR(total.largest_probability, 0.1, 1e-6);
}

}  // namespace
}  // namespace retina
