// Faults, the worst images, suspects and the file that tells them, on scenes made by hand.
#include "evaluate/explain/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "shared/base/json.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/metrics_text.h"
#include "tests/evaluation/explained_scene.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- kinds of faults -------------------------------------------------------------------------

struct FaultCase {
  const char* name;
  SceneBox box;
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
  ASSERT_EQ(explanation.shown.size(), 2U);
  EXPECT_EQ(explanation.shown[0].image.id, 1);
  EXPECT_EQ(explanation.shown[0].ap_lost, .5);
  EXPECT_EQ(explanation.shown[1].ap_lost, .125);  // 1 / (1 + 1)^2 of 1 dog, of 2 classes
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
  ASSERT_EQ(explanation.shown.size(), 1U);
  const ShownImage& image = explanation.shown[0];
  EXPECT_EQ(image.image.file_name, "1.jpg");
  ASSERT_EQ(image.truths.size(), 3U);
  EXPECT_FALSE(image.truths[0].missed);
  EXPECT_TRUE(image.truths[1].missed);
  EXPECT_TRUE(image.truths[2].crowd && !image.truths[2].missed);
  ASSERT_EQ(image.found.size(), 3U);
  EXPECT_EQ(image.found[0].outcome.fault, FaultKind::kBackground);
  EXPECT_TRUE(image.found[1].outcome.ignored);
  EXPECT_TRUE(image.found[2].outcome.hit);
  EXPECT_EQ(explain(scene, {.most_boxes = 1}).shown[0].found.size(), 1U);
  EXPECT_TRUE(explain(scene, {.most_shown = 0}).shown.empty());
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

TEST(MetricsJson, HasTheExplanation) {
  Scene scene;
  scene.object(1, kCat, kHere);
  scene.object(2, kCat, kHere);
  scene.detect(1, kCat, kHere, .5);
  scene.detect(1, kDog, kThere, .9);
  const auto file = JsonFile::parse(
      metrics_json(evaluate_detections(scene.truth, scene.found), explain(scene)), "metrics.json");
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

}  // namespace
}  // namespace retina
