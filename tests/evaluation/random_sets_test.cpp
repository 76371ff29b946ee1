// The 12 numbers on 200 random sets, drawn here, against pycocotools' answers in golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "shared/base/json.h"
#include "shared/evaluation/score/metrics.h"
#include "tests/evaluation/random_set.h"

namespace retina {
namespace {

// How many sets have what they are there for.
struct Coverage {
  int ties = 0, crowds = 0, empty_images = 0, area_edges = 0, over_100 = 0, unknown = 0, low = 0,
      id_zero = 0;
};

void count(const RandomSet& set, Coverage& coverage) {
  std::set<double> scores;
  std::map<std::pair<std::int64_t, std::int64_t>, int> found;
  std::set<std::int64_t> filled;
  bool unknown = false, low = false;
  for (const Detection& one : set.found) {
    scores.insert(one.score);
    ++found[{one.image_id, one.category_id}];
    unknown = unknown || one.category_id == kUnknownCategory;
    low = low || one.score <= 0;
  }
  bool crowds = false, edges = false, id_zero = false;
  for (const Annotation& one : set.truth.annotations) {
    filled.insert(one.image_id);
    crowds = crowds || one.iscrowd;
    edges = edges || one.area == 1024 || one.area == 9216;
    id_zero = id_zero || one.id == 0;
  }
  coverage.ties += scores.size() < set.found.size();
  coverage.over_100 +=
      std::any_of(found.begin(), found.end(), [](const auto& item) { return item.second > 100; });
  coverage.empty_images += filled.size() < set.truth.images.size();
  coverage.crowds += crowds;
  coverage.area_edges += edges;
  coverage.unknown += unknown;
  coverage.low += low;
  coverage.id_zero += id_zero;
}

TEST(Metrics, TheResultDoesNotDependOnTheThreads) {
  for (int number = 0; number < 40; ++number) {
    const RandomSet set = random_set(number);
    const auto score = [&](int thread_count) {
      return evaluate_detections(BoxGroups(set.truth, set.found, thread_count), thread_count);
    };
    const CocoMetrics one = score(1);
    for (const int thread_count : {2, 3, 8}) {
      const CocoMetrics many = score(thread_count);
      EXPECT_EQ(many.stats, one.stats);
      for (std::size_t label = 0; label < one.per_class.size(); ++label) {
        EXPECT_EQ(many.per_class[label].stats, one.per_class[label].stats);
        EXPECT_EQ(many.per_class[label].precision, one.per_class[label].precision);
      }
    }
  }
}

TEST(MetricsParity, TwoHundredRandomSetsEqualPycocotools) {
  const auto file = JsonFile::read(RETINA_SOURCE_DIR "/tests/evaluation/golden/random_sets.json");
  const JsonView golden = file.root().at("stats");
  ASSERT_EQ(golden.size(), static_cast<std::size_t>(kRandomSetCount));
  double worst = 0;
  int scored = 0;
  Coverage coverage;
  for (int number = 0; number < kRandomSetCount; ++number) {
    const RandomSet set = random_set(number);
    count(set, coverage);
    const CocoMetrics metrics = evaluate_detections(set.truth, set.found);
    scored += metrics.stats[kAp] > 0;
    for (std::size_t i = 0; i < kCocoStatCount; ++i) {
      const double expected = golden.at(static_cast<std::size_t>(number)).at(i).as_double();
      EXPECT_NEAR(metrics.stats[i], expected, 1e-12) << "set " << number << ", number " << i;
      worst = std::max(worst, std::abs(metrics.stats[i] - expected));
    }
    const auto matches = [&](const auto& rule) {
      return std::count_if(set.found.begin(), set.found.end(), rule);
    };
    EXPECT_EQ(metrics.unknown_category_count,
              matches([](const Detection& one) { return one.category_id == kUnknownCategory; }));
    EXPECT_EQ(metrics.low_score_count,
              matches([](const Detection& one) { return one.score <= 0; }));
  }
  std::printf("200 random sets: largest difference from pycocotools %.1e (bound 1e-12)\n", worst);
  EXPECT_GT(scored, 100);
  for (const int sets : {coverage.ties, coverage.crowds, coverage.empty_images, coverage.area_edges,
                         coverage.over_100, coverage.unknown, coverage.low, coverage.id_zero}) {
    EXPECT_GE(sets, 25);
  }
}

}  // namespace
}  // namespace retina
