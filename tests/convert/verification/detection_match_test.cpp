#include "convert/verification/detection_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convert/verification/verification.h"
#include "shared/base/error.h"

namespace retina {
namespace {

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

TEST(MatchDetections, IdenticalBoxesArePairedByScore) {
  const std::vector<ScoredBox> list{at(0, 0.509F), at(0, 0.506F), at(0, 0.503F), at(0, 0.495F)};
  for (const auto& other : {list, std::vector<ScoredBox>(list.rbegin(), list.rend())}) {
    const auto result = match_detections(list, other, {});
    EXPECT_EQ(result.paired_count, 4);
    EXPECT_EQ(result.largest_score, 0);
    EXPECT_EQ(result.unexplained_count, 0);
  }
}

TEST(MatchDetections, BoxesOfEqualScoresArePairedByPlace) {
  const std::vector<ScoredBox> list{at(0, 0.5F), at(0.25F, 0.5F), at(0.5F, 0.5F)};
  const auto result = match_detections(list, {list.rbegin(), list.rend()}, {});
  EXPECT_EQ(result.paired_count, 3);
  EXPECT_EQ(result.largest_box_px, 0);
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
    EXPECT_THAT(error.what(), testing::HasSubstr("26 detections differ, 100 are equal: scores or "
                                                 "overlaps lie so close together that rounding"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("--onnx-static"));
  }
}

TEST(MatchDetections, AnotherClassIsAnotherDetection) {
  const auto result = match_detections({at(0, 0.9F, 1)}, {at(0, 0.9F, 2)}, {});
  EXPECT_EQ(result.paired_count, 0);
  EXPECT_EQ(result.unexplained_count, 2);
  EXPECT_THAT(result.first_unexplained, testing::HasSubstr("only the checkpoint finds class 1"));
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

}  // namespace
}  // namespace retina
