// AP over resampled images against the evaluation of a data set that has those images.
#include "shared/evaluation/score/resampling.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "shared/evaluation/score/metrics.h"
#include "shared/numeric/random.h"
#include "tests/evaluation/random_set.h"

namespace retina {
namespace {

std::vector<double> class_aps(const CocoMetrics& metrics) {
  std::vector<double> aps;
  for (const ClassMetrics& one : metrics.per_class) aps.push_back(one.stats[kAp]);
  return aps;
}

// What has no defined order once its image is there twice.
void drop_equal_scores_of_an_image(RandomSet& set) {
  std::set<std::tuple<std::int64_t, std::int64_t, double>> seen;
  std::erase_if(set.found, [&](const Detection& one) {
    return !seen.insert({one.image_id, one.category_id, one.score}).second;
  });
}

TEST(ResampledEvaluation, EqualsTheEvaluationOfTheResampledImages) {
  int changed = 0;
  for (int number = 0; number < kRandomSetCount; ++number) {
    RandomSet set = random_set(number);
    drop_equal_scores_of_an_image(set);
    const RandomStream random{.seed = kRandomSetSeed, .stream = static_cast<std::uint32_t>(number)};
    std::vector<std::uint32_t> weights;
    for (std::size_t i = 0; i < set.truth.images.size(); ++i) {
      weights.push_back(static_cast<std::uint32_t>(random.below(i, 4)));
    }
    const RandomSet copy = resampled(set, weights);
    const std::vector<double> expected = class_aps(evaluate_detections(copy.truth, copy.found));
    EXPECT_EQ(ResampledEvaluation(BoxGroups(set.truth, set.found), 1).class_aps(weights), expected)
        << "set " << number << ", seed " << kRandomSetSeed;
    changed += expected != class_aps(evaluate_detections(set.truth, set.found));
  }
  EXPECT_GT(changed, kRandomSetCount / 2) << "the weights made no difference";
}

TEST(ResampledEvaluation, AClassWhoseImagesAreNotDrawnHasNothingToFind) {
  RandomSet set;
  set.truth.images = {{.id = 1, .width = 9, .height = 9}, {.id = 2, .width = 9, .height = 9}};
  set.truth.categories = {{.id = 3, .name = "a"}, {.id = 5, .name = "b"}};
  set.truth.annotations = {
      {.id = 1, .image_id = 1, .category_id = 3, .bbox = {0, 0, 5, 5}, .area = 25},
      {.id = 2, .image_id = 2, .category_id = 5, .bbox = {0, 0, 5, 5}, .area = 25}};
  set.found = {{.image_id = 1, .category_id = 3, .bbox = {0, 0, 5, 5}, .score = 1}};
  const ResampledEvaluation matched(BoxGroups(set.truth, set.found), 1);
  EXPECT_EQ(matched.class_aps(std::vector<std::uint32_t>{2, 0}), (std::vector<double>{1, -1}));
  EXPECT_EQ(matched.class_aps(std::vector<std::uint32_t>{0, 2}), (std::vector<double>{-1, 0}));
}

// One class. Image 1: both objects found, one only at IoU .5. Image 2: found with
// a false detection above the class's best threshold. Image 3: empty, with one below it. Image 4:
// empty and clean.
TEST(ResampledEvaluation, AnImagesMistakesAreCountedAboveTheBestThreshold) {
  Instances truth;
  for (const std::int64_t id : {1, 2, 3, 4}) {
    truth.images.push_back({.id = id, .width = 99, .height = 99});
  }
  truth.categories = {{.id = 1, .name = "a"}};
  const auto object = [&](std::int64_t image, double x) {
    truth.annotations.push_back({.id = static_cast<std::int64_t>(truth.annotations.size()) + 1,
                                 .image_id = image,
                                 .category_id = 1,
                                 .bbox = {x, 0, 10, 10},
                                 .area = 100});
  };
  object(1, 0), object(1, 50), object(2, 0);
  const std::vector<Detection> found{
      {.image_id = 1, .category_id = 1, .bbox = {0, 0, 10, 10}, .score = .9},
      {.image_id = 1, .category_id = 1, .bbox = {50, 0, 10, 5.2}, .score = .8},  // IoU .52
      {.image_id = 2, .category_id = 1, .bbox = {60, 0, 10, 10}, .score = .7},
      {.image_id = 2, .category_id = 1, .bbox = {0, 0, 10, 10}, .score = .6},
      {.image_id = 3, .category_id = 1, .bbox = {0, 0, 10, 10}, .score = .1}};
  // Image 1: at IoU .55 and above one missed and one false.
  EXPECT_EQ(ResampledEvaluation(BoxGroups(truth, found), 1).image_mistakes(),
            (std::vector<std::int64_t>{9 * 2, 10, 0, 0}));
}

// Two objects. At .9 one is found: F1 2/3. At .5 the other one is, together with five false
// detections: F1 4/9, although the first of these six alone would make it 1.
TEST(ResampledEvaluation, DetectionsOfOneScoreCountTogetherOrNotAtAll) {
  Instances truth;
  truth.images = {{.id = 1, .width = 99, .height = 99}};
  truth.categories = {{.id = 1, .name = "a"}};
  std::vector<Detection> found;
  for (int i = 0; i < 2; ++i) {
    truth.annotations.push_back(
        {.id = i + 1, .image_id = 1, .category_id = 1, .bbox = {20. * i, 0, 10, 10}, .area = 100});
    found.push_back(
        {.image_id = 1, .category_id = 1, .bbox = {20. * i, 0, 10, 10}, .score = i == 0 ? .9 : .5});
  }
  for (int i = 0; i < 5; ++i) {
    found.push_back({.image_id = 1, .category_id = 1, .bbox = {60, 60, 9, 9}, .score = .5});
  }
  EXPECT_EQ(ResampledEvaluation(BoxGroups(truth, found), 1).image_mistakes(),
            std::vector<std::int64_t>{10});
}

}  // namespace
}  // namespace retina
