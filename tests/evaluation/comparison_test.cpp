// What a comparison says about two evaluations, and how sure it is.
#include "evaluate/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/numeric/random.h"
#include "tests/evaluation/random_set.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One object on each image.
Instances one_object_images(int image_count) {
  Instances truth;
  truth.categories = {{.id = 1, .name = "cell"}};
  for (int id = 1; id <= image_count; ++id) {
    truth.images.push_back({.id = id, .file_name = cat(id, ".jpg"), .width = 50, .height = 50});
    truth.annotations.push_back(
        {.id = id, .image_id = id, .category_id = 1, .bbox = {0, 0, 10, 10}, .area = 100});
  }
  return truth;
}

Detection hit(std::int64_t image) {
  return {.image_id = image, .category_id = 1, .bbox = {0, 0, 10, 10}, .score = .5};
}

// Without false detections AP is the recall, so the difference of a resample is the share of its
// images that only B finds: binomial.
TEST(Comparison, TheIntervalOfARecallIsTheBinomialOne) {
  const Instances truth = one_object_images(100);
  std::vector<Detection> a, b;
  for (int id = 1; id <= 100; ++id) {
    b.push_back(hit(id));
    if (id > 30) a.push_back(hit(id));
  }
  const Comparison comparison = compare_detections(truth, a, b);
  EXPECT_NEAR(comparison.b.stats[kAp] - comparison.a.stats[kAp], .3, .01);
  // Quantiles .025 and .975 of Binomial(100, .3): 21 and 39. AP counts in steps of 1/101.
  ASSERT_TRUE(comparison.ap_interval);
  EXPECT_NEAR(comparison.ap_interval->low, .21, .021);
  EXPECT_NEAR(comparison.ap_interval->high, .39, .021);
  EXPECT_TRUE(comparison.ap_interval->excludes_zero());
  ASSERT_EQ(comparison.class_intervals.size(), 1U);
  EXPECT_EQ(comparison.class_intervals[0]->low, comparison.ap_interval->low);
  EXPECT_EQ(better_images(comparison).size(), 30U);
  EXPECT_EQ(comparison.images[better_images(comparison)[0]].image_id, 1);
  EXPECT_EQ(comparison.images[0].gain(), 10);
  EXPECT_TRUE(worse_images(comparison).empty());
}

// Both find each object with probability .6 and .7: the true difference is .1. Over data sets drawn
// afresh, the 95 % interval must hold it in about 95 % of them.
TEST(Comparison, TheIntervalHoldsTheTrueDifferenceAsOftenAsItSays) {
  constexpr int kSets = 200, kImages = 120;
  constexpr std::uint64_t kSeed = 20261122;
  const Instances truth = one_object_images(kImages);
  int covered = 0;
  for (int set = 0; set < kSets; ++set) {
    const RandomStream random{.seed = kSeed, .stream = static_cast<std::uint32_t>(set)};
    std::vector<Detection> a, b;
    for (int id = 1; id <= kImages; ++id) {
      const auto place = static_cast<std::uint64_t>(2 * id);
      if (random.unit(place) < .6) a.push_back(hit(id));
      if (random.unit(place + 1) < .7) b.push_back(hit(id));
    }
    const Comparison comparison =
        compare_detections(truth, a, b, {.resample_count = 300, .thread_count = 1});
    ASSERT_TRUE(comparison.ap_interval);
    covered += comparison.ap_interval->low <= .1 && .1 <= comparison.ap_interval->high;
  }
  std::printf("95 %% intervals that hold the true difference: %d of %d (seed %llu)\n", covered,
              kSets, static_cast<unsigned long long>(kSeed));
  // Four standard errors of a share of .95 in 200, and a little for the bootstrap.
  EXPECT_GE(covered, 174);
  EXPECT_LE(covered, 199);
}

TEST(Comparison, AnEvaluationAgainstItselfDiffersNowhere) {
  int intervals = 0;
  for (int number = 0; number < 20; ++number) {
    const RandomSet set = random_set(number);
    const Comparison comparison = compare_detections(set.truth, set.found, set.found,
                                                     {.resample_count = 100, .fewest_images = 1});
    std::vector<std::optional<Interval>> all = comparison.class_intervals;
    all.push_back(comparison.ap_interval);
    for (const std::optional<Interval>& interval : all) {
      if (!interval) continue;  // nothing to find
      ++intervals;
      EXPECT_EQ(interval->low, 0);
      EXPECT_EQ(interval->high, 0);
    }
    EXPECT_TRUE(better_images(comparison).empty());
    EXPECT_TRUE(worse_images(comparison).empty());
  }
  EXPECT_GT(intervals, 20);
}

TEST(Comparison, IsTheSameToTheBitForAnyNumberOfThreads) {
  const RandomSet set = random_set(11);
  std::vector<Detection> other = set.found;
  for (std::size_t i = 0; i < other.size(); ++i) {
    other[i].score *= 1 - .5 * RandomStream{.seed = 1}.unit(i);
  }
  std::vector<std::string> texts;
  for (const int threads : {1, 2, 3}) {
    texts.push_back(comparison_json(
        {},
        compare_detections(set.truth, set.found, other,
                           {.resample_count = 101, .fewest_images = 1, .thread_count = threads})));
  }
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
  EXPECT_THAT(texts[0], HasSubstr("\"interval\": ["));
}

TEST(Comparison, FewImagesGiveNoInterval) {
  const Comparison nine = compare_detections(one_object_images(9), {}, {hit(1)});
  EXPECT_FALSE(nine.ap_interval);
  EXPECT_FALSE(nine.class_intervals[0]);
  const Comparison ten = compare_detections(one_object_images(10), {}, {hit(1)});
  EXPECT_TRUE(ten.ap_interval);
  EXPECT_TRUE(ten.class_intervals[0]);
}

TEST(Comparison, OrdersClassesAndImagesByTheSizeOfTheirChange) {
  Comparison comparison;
  for (const auto& [a, b] : {std::pair{.5, .6}, {-1., -1.}, {.5, .2}, {.3, .4}}) {
    const auto id = static_cast<std::int64_t>(comparison.a.per_class.size());
    comparison.a.per_class.push_back({.category_id = id, .name = cat("class ", id)});
    comparison.b.per_class.push_back(comparison.a.per_class.back());
    comparison.a.per_class.back().stats[kAp] = a;
    comparison.b.per_class.back().stats[kAp] = b;
    comparison.class_intervals.push_back(std::nullopt);
  }
  comparison.class_intervals[2] = Interval{.low = -.4, .high = -.1};
  comparison.images = {{.image_id = 1, .mistakes_a = 6, .mistakes_b = 5},
                       {.image_id = 2, .file_name = "b.jpg", .mistakes_a = 9, .mistakes_b = 5},
                       {.image_id = 3, .mistakes_a = 5, .mistakes_b = 5},
                       {.image_id = 4, .mistakes_a = 1, .mistakes_b = 5},
                       {.image_id = 5, .mistakes_a = 5, .mistakes_b = 9}};
  EXPECT_THAT(better_images(comparison), ElementsAre(1, 0));
  EXPECT_THAT(worse_images(comparison), ElementsAre(3, 4)) << "equal changes: by id";

  const std::string text = comparison_text({.a = "one", .b = "two", .truth = "truth"}, comparison);
  EXPECT_THAT(text, HasSubstr("class 2      0.500  0.200  -0.300  -0.400 to -0.100  *\n"));
  EXPECT_THAT(text, HasSubstr("2 images better, 2 worse, 1 the same."));
  EXPECT_THAT(text, HasSubstr("1 of 1 class interval exclude"));
  const JsonFile json = JsonFile::parse(comparison_json({}, comparison), "compare.json");
  EXPECT_EQ(json.root().at("per_class").at(std::size_t{0}).at("category_id").as_int(), 2);
  EXPECT_TRUE(json.root().at("per_class").at(std::size_t{0}).at("excludes_zero").as_bool());
  EXPECT_EQ(json.root().at("per_class").size(), 4U);
  EXPECT_EQ(json.root().at("images").size(), 5U);
  EXPECT_EQ(json.root().at("better").at(std::size_t{0}).as_int(), 2);
}

TEST(Comparison, ThePercentileIntervalIsThatOfEfronAndTibshirani) {
  std::vector<double> values;
  for (int i = 1000; i >= 1; --i) values.push_back(i);
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  const std::optional<Interval> interval = percentile_interval(values);
  EXPECT_EQ(interval->low, 25);
  EXPECT_EQ(interval->high, 976);
  EXPECT_EQ(percentile_interval({3})->low, 3);
  EXPECT_FALSE(percentile_interval({std::numeric_limits<double>::quiet_NaN()}));
}

}  // namespace
}  // namespace retina
