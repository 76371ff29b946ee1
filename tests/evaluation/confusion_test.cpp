// What scores are worth: the confusion matrix at each threshold, calibration, the best threshold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <span>

#include "tests/evaluation/explained_scene.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Counts = std::array<std::int64_t, kConfusionScoreCount>;

const ConfusionCell* cell_of(const Confusion& confusion, std::int32_t truth, std::int32_t found) {
  for (const ConfusionCell& cell : confusion.cells) {
    if (cell.truth == truth && cell.found == found) return &cell;
  }
  return nullptr;
}
// `count` for each threshold up to `score`, `above` for those above.
Counts up_to(double score, std::int64_t count, std::int64_t above) {
  Counts counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = confusion_score(i) <= score ? count : above;
  }
  return counts;
}

TEST(Confusion, AHitIsOnTheDiagonalUpToItsScoreAndMissedAboveIt) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, kHere, .35);  // a threshold of 7 / 20, reached exactly
  const Confusion confusion = explain(scene).confusion;
  ASSERT_EQ(confusion.cells.size(), 2U);
  EXPECT_EQ(cell_of(confusion, 0, 0)->counts, up_to(.35, 1, 0));
  EXPECT_EQ(cell_of(confusion, 0, 0)->counts[6], 1);
  EXPECT_EQ(cell_of(confusion, 0, 0)->counts[7], 0);
  EXPECT_EQ(cell_of(confusion, 0, kBackground)->counts, up_to(.35, 0, 1));
  EXPECT_THAT(confusion.truth_counts, ElementsAre(1, 0));
  EXPECT_EQ(confusion.chosen, 0U);
}

TEST(Confusion, ADetectionPrefersItsOwnClassToANearerObject) {
  Scene scene;
  scene.object(1, kDog, {0, 0, 40, 40});
  scene.object(1, kCat, {4, 0, 40, 40});
  scene.detect(1, kCat, {0, 0, 40, 40}, .9);
  const Confusion confusion = explain(scene).confusion;
  EXPECT_NE(cell_of(confusion, 0, 0), nullptr);
  EXPECT_EQ(cell_of(confusion, 1, 0), nullptr);
}

TEST(Confusion, AnObjectIsTakenOnceByTheMostConfident) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, kHere, .4);
  scene.detect(1, kDog, kHere, .6);
  const Confusion confusion = explain(scene).confusion;
  EXPECT_EQ(cell_of(confusion, 0, 1)->counts, up_to(.6, 1, 0));
  EXPECT_EQ(cell_of(confusion, kBackground, 0)->counts, up_to(.4, 1, 0));
}

TEST(Confusion, CrowdsTakeDetectionsOfTheirClassSilently) {
  Scene scene;
  scene.object(1, kCat, {0, 0, 150, 150}, true);
  scene.detect(1, kCat, kHere, .9);
  scene.detect(1, kCat, {20, 20, 40, 40}, .9);
  EXPECT_THAT(explain(scene).confusion.cells, IsEmpty());
  EXPECT_THAT(explain(scene).confusion.truth_counts, ElementsAre(0, 0));
  scene.detect(1, kDog, kHere, .9);
  EXPECT_NE(cell_of(explain(scene).confusion, kBackground, 1), nullptr);
}

TEST(Confusion, TheThresholdOfTheBestF1IsChosen) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, kHere, .72);
  for (int i = 0; i < 5; ++i) scene.detect(1, kDog, kThere, .31);
  EXPECT_EQ(explain(scene).confusion.chosen, 6U);  // .35: the lowest above .31
}

TEST(Confusion, ExamplesAreTheMostConfidentImagesEachOnce) {
  Scene scene;
  for (std::int64_t image = 3; image <= 6; ++image) {
    scene.truth.images.push_back({.id = image, .width = 200, .height = 200});
  }
  for (const auto& [image, score] :
       std::map<std::int64_t, double>{{1, .5}, {2, .9}, {3, .6}, {4, .7}, {5, .2}}) {
    scene.detect(image, kCat, kHere, score);
    scene.detect(image, kCat, kThere, score - .01);
  }
  EXPECT_THAT(cell_of(explain(scene).confusion, kBackground, 0)->image_ids, ElementsAre(2, 4, 3));
}

TEST(Confusion, ScoresBelowTheLowestThresholdAreNotCountedAndThoseAboveOneAre) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, kHere, .049);
  EXPECT_EQ(cell_of(explain(scene).confusion, 0, 0), nullptr);
  scene.detect(1, kCat, kHere, 17);
  EXPECT_EQ(cell_of(explain(scene).confusion, 0, 0)->counts, up_to(1, 1, 1));
}

// --- calibration, best threshold -------------------------------------------------------------

TEST(Calibration, AScoreOnAnEdgeBelongsToTheUpperBin) {
  for (std::size_t bin = 0; bin < 10; ++bin) {
    EXPECT_EQ(equal_width_bin(static_cast<double>(bin) / 10, 10, false), bin);
    EXPECT_EQ(equal_width_bin(std::nextafter(static_cast<double>(bin + 1) / 10, 0), 10, false),
              bin);
  }
  EXPECT_EQ(equal_width_bin(1, 10, false), 9U);
  EXPECT_EQ(equal_width_bin(1e300, 10, false), 9U);
  EXPECT_EQ(equal_width_bin(-3, 10, false), 0U);
}

TEST(Calibration, BinsTellHowOftenScoresAreRight) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(1, kCat, {50, 50, 100, 100}, true);
  scene.detect(1, kCat, kHere, .72);
  scene.detect(1, kDog, kHere, .78);
  scene.detect(1, kCat, {60, 60, 20, 20}, .75);  // in the crowd: not counted
  scene.detect(2, kCat, kHere, .25);
  const Calibration calibration = explain(scene).calibration;
  EXPECT_EQ(calibration.bins[7].count, 2);
  EXPECT_EQ(calibration.bins[7].precision(), .5);
  EXPECT_DOUBLE_EQ(calibration.bins[7].mean_score(), .75);
  EXPECT_EQ(calibration.bins[2].count, 1);
  EXPECT_EQ(calibration.bins[2].precision(), 0);
  EXPECT_EQ(calibration.bins[0].mean_score(), 0);
  EXPECT_DOUBLE_EQ(calibration.error, (2 * .25 + .25) / 3);
}

TEST(BestThreshold, IsTheScoreOfTheBestF1) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(1, kCat, kThere);
  scene.detect(1, kCat, kHere, .9);
  scene.detect(2, kCat, kHere, .8);
  scene.detect(1, kCat, kThere, .7);
  scene.detect(2, kCat, kThere, .6);
  const Explanation explanation = explain(scene);
  ASSERT_TRUE(explanation.per_class[0].best_threshold);
  const BestThreshold& best = *explanation.per_class[0].best_threshold;
  EXPECT_EQ(best.score, .7);
  EXPECT_EQ(best.precision, 2.0 / 3);
  EXPECT_EQ(best.recall, 1);
  EXPECT_EQ(best.f1, .8);
  EXPECT_FALSE(explanation.per_class[1].best_threshold);  // no dogs to find
}

TEST(BestThreshold, EqualScoresStandOrFallTogether) {
  const std::array<ScoredDetection, 3> detections{
      {{.score = .5, .right = true}, {.score = .5}, {.score = .5}}};
  EXPECT_EQ(best_threshold(detections, 1)->precision, 1.0 / 3);
  EXPECT_FALSE(best_threshold(std::span(detections).subspan(1), 1));  // no hits
  EXPECT_FALSE(best_threshold(detections, 0));
}

}  // namespace
}  // namespace retina
