// Hand-made scenes for each thing that an explanation tells, then rules that hold on random sets.
#include "shared/evaluation/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/coco/categories.h"
#include "shared/evaluation/matching.h"
#include "shared/evaluation/metrics.h"
#include "shared/evaluation/metrics_text.h"
#include "tests/evaluation/random_set.h"
#include "tests/evaluation/scene.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Box = std::array<double, 4>;

constexpr std::int64_t kCat = 3, kDog = 7;
constexpr Box kHere{0, 0, 40, 40}, kThere{100, 100, 40, 40};

Explanation explain(const Scene& scene, const ExplainOptions& options = {}) {
  return explain_detections(scene.truth, scene.found, options);
}

std::array<std::int64_t, kFaultKindCount> counts_of(const Explanation& explanation) {
  std::array<std::int64_t, kFaultKindCount> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = explanation.error_split.kinds[i].count;
  }
  return counts;
}

// --- kinds of faults -------------------------------------------------------------------------

// classification, localisation, both, duplicate, background, missed
struct FaultCase {
  const char* name;
  Box box;
  std::int64_t category;
  std::array<std::int64_t, kFaultKindCount> counts;
};

class Faults : public testing::TestWithParam<FaultCase> {};

TEST_P(Faults, AreTold) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, GetParam().category, GetParam().box, .5);
  const Explanation explanation = explain(scene);
  EXPECT_EQ(counts_of(explanation), GetParam().counts);
  auto of_class = explanation.per_class[GetParam().category == kCat ? 0 : 1].faults;
  of_class[static_cast<std::size_t>(FaultKind::kMissed)] += explanation.per_class[1].faults[5];
  EXPECT_EQ(
      std::accumulate(of_class.begin(), of_class.begin() + 5, std::int64_t{0}),
      std::accumulate(GetParam().counts.begin(), GetParam().counts.begin() + 5, std::int64_t{0}));
  EXPECT_EQ(explanation.per_class[0].faults[5], GetParam().counts[5]);
}

INSTANTIATE_TEST_SUITE_P(
    OfOneDetectionAndOneCat, Faults,
    testing::Values(FaultCase{"Hit", {0, 0, 40, 40}, kCat, {0, 0, 0, 0, 0, 0}},
                    FaultCase{"OtherClass", {0, 0, 40, 40}, kDog, {1, 0, 0, 0, 0, 0}},
                    FaultCase{"Off", {0, 0, 16, 40}, kCat, {0, 1, 0, 0, 0, 0}},
                    FaultCase{"OffAndOtherClass", {0, 0, 16, 40}, kDog, {0, 0, 1, 0, 0, 1}},
                    FaultCase{"OnNothing", {80, 80, 9, 9}, kCat, {0, 0, 0, 0, 1, 1}},
                    FaultCase{"BarelyTouching", {0, 0, 3, 40}, kCat, {0, 0, 0, 0, 1, 1}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Explanation, ASecondDetectionOfAnObjectIsADuplicate) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, kHere, .5);
  scene.detect(1, kCat, kHere, .4);
  EXPECT_THAT(counts_of(explain(scene)), ElementsAre(0, 0, 0, 1, 0, 0));
}

TEST(Explanation, OfTwoDetectionsOffAnObjectTheBetterOneIsItsCorrection) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, {0, 0, 16, 40}, .4);
  scene.detect(1, kCat, {0, 0, 40, 12}, .5);
  const Explanation explanation = explain(scene);
  EXPECT_THAT(counts_of(explanation), ElementsAre(0, 2, 0, 0, 0, 0));
  EXPECT_EQ(explanation.error_split.kinds[1].ap_cost, 1);
}

TEST(Explanation, AFaultOfClassificationCostsTheApOfBothClasses) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(1, kDog, kThere);
  scene.detect(1, kDog, kHere, .9);
  scene.detect(1, kDog, kThere, .8);
  const ErrorSplit split = explain(scene).error_split;
  EXPECT_EQ(split.ap, .25);  // no cat, dogs at precision 1/2
  EXPECT_EQ(split.kinds[0].ap_cost, .75);
  EXPECT_EQ(split.false_positive_cost, .25);
  EXPECT_EQ(split.false_negative_cost, .25);  // the cats gone, the dogs' .5 is left
}

// --- confusion -------------------------------------------------------------------------------

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

TEST(Confusion, OneOfAnotherClassIsOffTheDiagonal) {
  Scene scene;
  scene.object(2, kCat, kHere);
  scene.detect(2, kDog, kHere, .5);
  const Confusion confusion = explain(scene).confusion;
  EXPECT_EQ(cell_of(confusion, 0, 1)->counts, up_to(.5, 1, 0));
  EXPECT_THAT(cell_of(confusion, 0, 1)->image_ids, ElementsAre(2));
  EXPECT_EQ(cell_of(confusion, 0, 0), nullptr);
}

TEST(Confusion, OneOnNothingHasTheBackgroundForTruth) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kDog, kThere, .5);
  const Confusion confusion = explain(scene).confusion;
  EXPECT_EQ(cell_of(confusion, kBackground, 1)->counts, up_to(.5, 1, 0));
  EXPECT_EQ(cell_of(confusion, 0, kBackground)->counts, up_to(1, 1, 1));
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
    EXPECT_EQ(calibration_bin(static_cast<double>(bin) / 10), bin);
    EXPECT_EQ(calibration_bin(std::nextafter(static_cast<double>(bin + 1) / 10, 0)), bin);
  }
  EXPECT_EQ(calibration_bin(1), 9U);
  EXPECT_EQ(calibration_bin(1e300), 9U);
  EXPECT_EQ(calibration_bin(-3), 0U);
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

// --- the worst images ------------------------------------------------------------------------

TEST(FalseDetectionCosts, FollowTheFormula) {
  // t / (t + f)^2 at the hits below: 1/4 at the second place, 2/16 at the fourth; two objects.
  const std::array<ScoredDetection, 5> detections{{{.score = .9},
                                                   {.score = .8, .right = true},
                                                   {.score = .7},
                                                   {.score = .6, .right = true},
                                                   {.score = .5}}};
  EXPECT_THAT(false_detection_costs(detections, 2),
              ElementsAre((.25F + .125F) / 2, 0, .125F / 2, 0, 0));
  EXPECT_THAT(false_detection_costs(detections, 0), ElementsAre(0, 0, 0, 0, 0));
}

TEST(WorstImages, AreRankedByEachMeasure) {
  Scene scene;
  scene.truth.images.push_back({.id = 9, .width = 200, .height = 200});
  scene.object(1, kCat, kHere);             // missed, small
  scene.object(2, kDog, {0, 0, 150, 150});  // missed, large, of a class of two
  scene.object(9, kDog, kHere);
  scene.detect(9, kDog, kHere, .6);
  scene.detect(9, kCat, kThere, .8);
  scene.detect(1, kCat, kThere, .3);
  const WorstImages worst = explain(scene).worst;
  EXPECT_THAT(worst.ap_lost, ElementsAre(1, 2));  // 1 of 1 cat, 1 of 2 dogs; 9's costs no hit
  EXPECT_THAT(worst.confident_wrong, ElementsAre(9, 1));
  EXPECT_THAT(worst.largest_missed, ElementsAre(2, 1));
}

TEST(WorstImages, AMissedObjectCostsItsShareAndAFalseDetectionThePrecisionBelowIt) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(1, kDog, kHere);
  scene.detect(1, kDog, kHere, .5);
  scene.detect(2, kDog, kThere, .9);
  const Explanation explanation = explain(scene);
  ASSERT_EQ(explanation.pictured.size(), 2U);
  EXPECT_EQ(explanation.pictured[0].image.id, 1);
  EXPECT_EQ(explanation.pictured[0].ap_lost, .5);
  EXPECT_EQ(explanation.pictured[1].ap_lost, .125);  // 1 / (1 + 1)^2 of 1 dog, of 2 classes
}

TEST(WorstImages, CarryTheirBoxesWithWhatBecameOfThem) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(1, kDog, kThere);
  scene.object(1, kCat, {150, 0, 50, 50}, true);
  scene.detect(1, kCat, kHere, .5);
  scene.detect(1, kCat, {0, 100, 40, 40}, .9);
  scene.detect(1, kCat, {160, 10, 20, 20}, .7);
  scene.detect(1, kCat, kHere, .04);  // too unsure to draw
  const Explanation explanation = explain(scene);
  ASSERT_EQ(explanation.pictured.size(), 1U);
  const PicturedImage& image = explanation.pictured[0];
  EXPECT_EQ(image.image.file_name, "1.jpg");
  ASSERT_EQ(image.truths.size(), 3U);
  EXPECT_FALSE(image.truths[0].missed);
  EXPECT_TRUE(image.truths[1].missed);
  EXPECT_TRUE(image.truths[2].crowd && !image.truths[2].missed);
  ASSERT_EQ(image.found.size(), 3U);
  EXPECT_EQ(image.found[0].outcome.fault, FaultKind::kBackground);
  EXPECT_TRUE(image.found[1].outcome.ignored);
  EXPECT_TRUE(image.found[2].outcome.hit);
  EXPECT_EQ(explain(scene, {.most_boxes = 1}).pictured[0].found.size(), 1U);
  EXPECT_TRUE(explain(scene, {.most_pictured = 0}).pictured.empty());
}

// --- suspects --------------------------------------------------------------------------------

TEST(Suspects, AConfidentDetectionOnNothingMayBeUnlabelled) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kCat, kHere, .9);
  scene.detect(1, kDog, kThere, .8);
  scene.detect(1, kCat, {101, 100, 40, 40}, .7);  // the same object again
  scene.detect(2, kCat, kThere, .4);              // not confident
  const auto suspects = explain(scene).suspects;
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(suspects[0].kind, SuspectKind::kUnlabelled);
  EXPECT_EQ(suspects[0].image_id, 1);
  EXPECT_FALSE(suspects[0].annotation_id || suspects[0].category_id);
  EXPECT_EQ(suspects[0].found_category_id, kDog);
  EXPECT_EQ(suspects[0].score, .8);
  EXPECT_EQ(suspects[0].bbox, kThere);
  EXPECT_EQ(explain(scene, {.suspect_score = .3}).suspects.size(), 2U);
}

TEST(Suspects, AConfidentDetectionOfAnotherClassMayBeRight) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.detect(1, kDog, {0, 0, 36, 40}, .8);
  scene.detect(1, kDog, kHere, .6);
  const auto suspects = explain(scene).suspects;
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(suspects[0].kind, SuspectKind::kWrongClass);
  EXPECT_EQ(suspects[0].annotation_id, 1);
  EXPECT_EQ(suspects[0].category_id, kCat);
  EXPECT_EQ(suspects[0].found_category_id, kDog);
  EXPECT_EQ(suspects[0].iou, .9);
  EXPECT_EQ(suspects[0].bbox, kHere);
  scene.detect(1, kCat, kHere, .1);  // a hit: the annotation is right
  EXPECT_TRUE(explain(scene).suspects.empty());
}

TEST(Suspects, AnObjectThatNothingReachesMayNotBeThere) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(1, kCat, {60, 60, 80, 80});
  scene.object(2, kCat, {60, 60, 80, 80}, true);
  scene.object(2, kCat, kHere);
  scene.detect(1, kCat, {0, 0, 20, 38}, .01);
  scene.detect(2, kDog, kHere, .01);
  const auto suspects = explain(scene).suspects;
  ASSERT_EQ(suspects.size(), 2U);
  EXPECT_EQ(suspects[0].annotation_id, 2);  // the larger one first
  EXPECT_EQ(suspects[0].iou, 0);
  EXPECT_EQ(suspects[1].annotation_id, 1);
  EXPECT_EQ(suspects[1].iou, .475);
  EXPECT_FALSE(suspects[1].score || suspects[1].found_category_id);
}

TEST(Suspects, AreLimitedToTheBestOfEachKind) {
  Scene scene;
  for (int i = 0; i < 30; ++i) {
    scene.object(1, kCat, {0, 50.0 * i, 40, 20.0 + i});
    scene.detect(2, kCat, {0, 50.0 * i, 40, 40}, .6 + .01 * i);
  }
  const auto suspects = explain(scene, {.most_suspects = 2}).suspects;
  ASSERT_EQ(suspects.size(), 4U);
  EXPECT_DOUBLE_EQ(*suspects[0].score, .89);
  EXPECT_EQ(suspects[2].annotation_id, 30);
  EXPECT_EQ(suspects[3].annotation_id, 29);
}

// --- metrics.json ----------------------------------------------------------------------------

std::string json_of(const Instances& truth, const std::vector<Detection>& found, int threads = 0) {
  return metrics_json(evaluate_detections(truth, found),
                      explain_detections(truth, found, {.thread_count = threads}));
}

TEST(MetricsJson, HasTheExplanation) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(2, kCat, kHere);
  scene.detect(1, kCat, kHere, .5);
  scene.detect(1, kDog, kThere, .9);
  const auto file = JsonFile::parse(json_of(scene.truth, scene.found), "metrics.json");
  const JsonView root = file.root(), cat = root.at("per_class").at(std::size_t{0});
  EXPECT_EQ(cat.at("curve_50").size(), 101U);
  EXPECT_NEAR(cat.at("curve_mean").at(std::size_t{50}).as_double(), 1, 1e-15);
  EXPECT_EQ(cat.at("curve_mean").at(std::size_t{51}).as_double(), 0);
  EXPECT_EQ(cat.at("best_threshold").at("recall").as_double(), .5);
  EXPECT_EQ(cat.at("faults").at("missed").as_int(), 1);
  const JsonView dog = root.at("per_class").at(std::size_t{1});
  EXPECT_TRUE(dog.at("curve_75").raw().IsNull());
  EXPECT_TRUE(dog.at("best_threshold").raw().IsNull());
  EXPECT_EQ(dog.at("faults").at("background").as_int(), 1);
  const JsonView kinds = root.at("error_split").at("kinds");
  ASSERT_EQ(kinds.size(), kFaultKindCount);
  EXPECT_EQ(kinds.at(std::size_t{4}).at("kind").as_string(), "background");
  EXPECT_EQ(kinds.at(std::size_t{4}).at("count").as_int(), 1);
  EXPECT_EQ(root.at("confusion").at("scores").size(), 19U);
  EXPECT_EQ(root.at("confusion").at("cells").at(std::size_t{0}).at("truth").as_int(), -1);
  EXPECT_EQ(root.at("calibration").at("bins").size(), 10U);
  EXPECT_EQ(root.at("worst").at("confident_wrong").at(std::size_t{0}).as_int(), 1);
  EXPECT_EQ(root.at("suspects").at(std::size_t{0}).at("why").as_string(), "unlabelled");
  EXPECT_TRUE(root.at("suspects").at(std::size_t{0}).at("annotation_id").raw().IsNull());
  const JsonView image = root.at("images").at(std::size_t{1});
  EXPECT_EQ(image.at("found").at(std::size_t{0}).at("fault").as_string(), "background");
  EXPECT_TRUE(image.at("found").at(std::size_t{1}).at("fault").raw().IsNull());
}

// --- rules -----------------------------------------------------------------------------------

TEST(ExplanationRules, ThreadCountsChangeNothing) {
  for (const int number : {3, 17, 42, 99, 150}) {
    // Several random sets side by side, so that there are images for three threads.
    RandomSet all = random_set(number);
    for (int more = 1; more < 40; ++more) {
      const RandomSet set = random_set((number + more) % kRandomSetCount);
      std::map<std::int64_t, std::int64_t> categories;
      for (std::size_t k = 0; k < set.truth.categories.size(); ++k) {
        categories[set.truth.categories[k].id] =
            all.truth.categories[k % all.truth.categories.size()].id;
      }
      const std::int64_t shift = 1000 * more;
      for (ImageInfo image : set.truth.images) {
        image.id += shift;
        all.truth.images.push_back(image);
      }
      for (Annotation one : set.truth.annotations) {
        one.image_id += shift;
        one.id += shift;
        one.category_id = categories.at(one.category_id);
        all.truth.annotations.push_back(one);
      }
      for (Detection one : set.found) {
        one.image_id += shift;
        if (one.category_id != kUnknownCategory) one.category_id = categories.at(one.category_id);
        all.found.push_back(one);
      }
    }
    ASSERT_GT(all.truth.images.size(), 100U);
    const std::string one = json_of(all.truth, all.found, 1);
    EXPECT_EQ(json_of(all.truth, all.found, 2), one) << number;
    EXPECT_EQ(json_of(all.truth, all.found, 3), one) << number;
  }
}

// JsonWriter prints what is not finite as null: numbers that must be there are looked at.
void expect_finite(const Explanation& explanation) {
  const auto finite = [](double value) { EXPECT_TRUE(std::isfinite(value)); };
  const auto share = [&](double value) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 1);
  };
  share(explanation.error_split.ap);
  for (const auto& kind : explanation.error_split.kinds) share(kind.ap_cost);
  finite(explanation.error_split.false_positive_cost);
  finite(explanation.error_split.false_negative_cost);
  finite(explanation.calibration.error);
  for (const auto& bin : explanation.calibration.bins) {
    finite(bin.mean_score());
    share(bin.precision());
  }
  for (const auto& one : explanation.per_class) {
    if (one.best_threshold) share(one.best_threshold->f1);
  }
  for (const auto& image : explanation.pictured) finite(image.ap_lost);
  for (const auto& suspect : explanation.suspects) share(suspect.iou);
}

// Every detection among the best 100 of its image is a hit or has one kind of fault.
void expect_counts_to_add_up(const RandomSet& set, const Explanation& explanation) {
  const CategoryMap categories(set.truth.categories);
  std::map<std::int64_t, std::int64_t> per_image;
  for (const Detection& one : set.found) {
    if (categories.label_of(one.category_id)) ++per_image[one.image_id];
  }
  std::int64_t judged = 0;
  for (const auto& [image, count] : per_image) judged += std::min<std::int64_t>(count, 100);
  std::int64_t faults = 0;
  for (std::size_t kind = 0; kind + 1 < kFaultKindCount; ++kind) {
    const ErrorSplit::Kind& one = explanation.error_split.kinds[kind];
    faults += one.count;
    std::int64_t by_class = one.ignored;
    for (const auto& label : explanation.per_class) by_class += label.faults[kind];
    EXPECT_EQ(by_class, one.count) << fault_name(static_cast<FaultKind>(kind));
  }
  const std::int64_t hits = judged - faults;
  std::int64_t objects = 0;
  for (const Annotation& one : set.truth.annotations) objects += one.iscrowd ? 0 : 1;
  EXPECT_GE(hits, 0);
  EXPECT_LE(hits + explanation.error_split.kinds[5].count, objects);

  // Confusion: an object is found as something or missed, at each threshold.
  const Confusion& confusion = explanation.confusion;
  std::vector<Counts> of_truth(confusion.truth_counts.size());
  for (const ConfusionCell& cell : confusion.cells) {
    EXPECT_LE(cell.image_ids.size(), 3U);
    EXPECT_EQ(std::set<std::int64_t>(cell.image_ids.begin(), cell.image_ids.end()).size(),
              cell.image_ids.size());
    EXPECT_FALSE(cell.image_ids.empty());
    if (cell.truth == kBackground) continue;
    for (std::size_t i = 0; i < kConfusionScoreCount; ++i) {
      of_truth[static_cast<std::size_t>(cell.truth)][i] += cell.counts[i];
    }
  }
  for (std::size_t label = 0; label < of_truth.size(); ++label) {
    for (const std::int64_t count : of_truth[label]) {
      EXPECT_EQ(count, confusion.truth_counts[label]);
    }
  }
}

// Calibration's and the thresholds' right and wrong are those of COCO's matching.
void expect_hits_as_coco_matches(const RandomSet& set, const Explanation& explanation) {
  const BoxGroups boxes(set.truth, set.found);
  std::int64_t right = 0, wrong = 0;
  for (const Match& one : match_detections(boxes, {}, kMaxDetectionsPerImage, 1)) {
    if (one.rank >= kMaxDetectionsPerImage || (one.ignored[0] & 1) != 0) continue;
    ++((one.hit[0] & 1) != 0 ? right : wrong);
  }
  std::int64_t told_right = 0, told = 0;
  for (const CalibrationBin& bin : explanation.calibration.bins) {
    told_right += bin.right;
    told += bin.count;
  }
  EXPECT_EQ(told_right, right);
  EXPECT_EQ(told, right + wrong);
}

TEST(ExplanationRules, HoldOnTwoHundredRandomSets) {
  for (int number = 0; number < kRandomSetCount; ++number) {
    SCOPED_TRACE(number);
    const RandomSet set = random_set(number);
    const Explanation explanation = explain_detections(set.truth, set.found);
    expect_finite(explanation);
    expect_counts_to_add_up(set, explanation);
    expect_hits_as_coco_matches(set, explanation);
  }
}

TEST(ExplanationRules, HoldWithoutDetectionsObjectsOrAnythingButCrowds) {
  for (int number = 0; number < 40; ++number) {
    SCOPED_TRACE(number);
    RandomSet nothing_found = random_set(number);
    nothing_found.found.clear();
    RandomSet nothing_there = random_set(number);
    nothing_there.truth.annotations.clear();
    RandomSet crowds = random_set(number);
    for (Annotation& one : crowds.truth.annotations) one.iscrowd = true;
    RandomSet ties = random_set(number);
    for (Detection& one : ties.found) one.score = .5;
    for (const RandomSet& set : {nothing_found, nothing_there, crowds, ties}) {
      const Explanation explanation = explain_detections(set.truth, set.found);
      expect_finite(explanation);
      expect_counts_to_add_up(set, explanation);
      expect_hits_as_coco_matches(set, explanation);
    }
    EXPECT_EQ(explain_detections(nothing_there.truth, nothing_there.found).error_split.ap, 0);
    for (const Suspect& one : explain_detections(crowds.truth, crowds.found).suspects) {
      EXPECT_EQ(one.kind, SuspectKind::kUnlabelled);
    }
  }
}

TEST(ExplanationRules, DetectionsOfUnknownCategoriesAreAbsent) {
  RandomSet set = random_set(5);
  const std::string with = json_of(set.truth, set.found);
  std::erase_if(set.found,
                [](const Detection& one) { return one.category_id == kUnknownCategory; });
  const std::string without =
      metrics_json(evaluate_detections(random_set(5).truth, random_set(5).found),
                   explain_detections(set.truth, set.found));
  EXPECT_EQ(with, without);
}

TEST(ExplanationRules, AnImageThatIsNotInTheTruthIsNamed) {
  Scene scene;
  scene.detect(4711, kCat, kHere, .5);
  try {
    explain(scene);
    FAIL() << "accepted image id 4711";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), testing::HasSubstr("entry 0: image id 4711"));
  }
}

TEST(ExplanationRules, IdsFarApartAreFoundToo) {
  Scene near, far;
  for (Scene* scene : {&near, &far}) {
    scene->object(1, kCat, kHere);
    scene->object(2, kDog, kHere);
    scene->detect(1, kCat, kHere, .5);
    scene->detect(2, kCat, kThere, .5);
  }
  const auto move = [](std::int64_t& id) { id = id == 2 ? INT64_MAX : INT64_MIN; };
  for (ImageInfo& image : far.truth.images) move(image.id);
  for (Annotation& one : far.truth.annotations) move(one.image_id);
  for (Detection& one : far.found) move(one.image_id);
  EXPECT_EQ(counts_of(explain(near)), counts_of(explain(far)));
  EXPECT_EQ(explain(near).error_split.ap, explain(far).error_split.ap);
}

}  // namespace
}  // namespace retina
