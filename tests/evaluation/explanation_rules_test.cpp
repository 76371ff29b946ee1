// What holds for the explanation of any detections, on random sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/metrics_text.h"
#include "tests/evaluation/explained_scene.h"
#include "tests/evaluation/random_set.h"

namespace retina {
namespace {

using Counts = std::array<std::int64_t, kConfusionScoreCount>;

std::string json_of(const Instances& truth, const std::vector<Detection>& found, int threads = 0) {
  return metrics_json(evaluate_detections(truth, found),
                      explain_detections(truth, found, {.thread_count = threads}));
}

TEST(ExplanationRules, ThreadCountsChangeNothing) {
  for (const int number : {3, 17, 42, 99, 150}) {
    // Each image several times, so that there are images for three threads.
    const RandomSet one_of_each = random_set(number);
    const RandomSet set =
        resampled(one_of_each, std::vector<std::uint32_t>(one_of_each.truth.images.size(), 100));
    ASSERT_GE(set.truth.images.size(), 100U);
    const std::string one = json_of(set.truth, set.found, 1);
    EXPECT_EQ(json_of(set.truth, set.found, 2), one) << number;
    EXPECT_EQ(json_of(set.truth, set.found, 3), one) << number;
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
  for (const auto& image : explanation.shown) finite(image.ap_lost);
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

TEST(ExplanationRules, HoldOnTwoHundredRandomSets) {
  for (int number = 0; number < kRandomSetCount; ++number) {
    SCOPED_TRACE(number);
    const RandomSet set = random_set(number);
    const Explanation explanation = explain_detections(set.truth, set.found);
    expect_finite(explanation);
    expect_counts_to_add_up(set, explanation);
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

}  // namespace
}  // namespace retina
