// The 12 numbers on 200 random sets, drawn here, against pycocotools' answers in golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "shared/base/json.h"
#include "shared/evaluation/score/metrics.h"
#include "tests/evaluation/random_set.h"

namespace retina {
namespace {

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
  for (int number = 0; number < kRandomSetCount; ++number) {
    const RandomSet set = random_set(number);
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
}

}  // namespace
}  // namespace retina
