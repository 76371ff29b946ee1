// The error split against tidecv's, whose numbers tests/evaluation/golden/tide_splits.py wrote, and
// the peculiarities of tidecv that the split follows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "evaluate/explain/explanation.h"
#include "shared/base/json.h"
#include "tests/evaluation/explained_scene.h"
#include "tests/evaluation/random_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr double kTolerance = 1e-9;

JsonFile goldens() {
  return JsonFile::read(RETINA_SOURCE_DIR "/tests/evaluation/golden/tide_splits.json");
}

// The largest difference in AP.
double expect_equal(const ErrorSplit& split, const JsonView& golden) {
  double worst = 0;
  const auto compare = [&](double ours, const JsonView& theirs, const char* what) {
    EXPECT_NEAR(ours, theirs.as_double(), kTolerance) << what;
    worst = std::max(worst, std::abs(ours - theirs.as_double()));
  };
  compare(split.ap, golden.at("ap"), "AP");
  compare(split.false_positive_cost, golden.at("false_positive_cost"), "false positives");
  compare(split.false_negative_cost, golden.at("false_negative_cost"), "false negatives");
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    const char* name = fault_name(static_cast<FaultKind>(i));
    EXPECT_EQ(split.kinds[i].count, golden.at("counts").at(i).as_int()) << name;
    compare(split.kinds[i].ap_cost, golden.at("costs").at(i), name);
  }
  return worst;
}

TEST(TideParity, TwoHundredRandomSetsEqualTidecv) {
  const JsonFile file = goldens();
  const JsonView splits = file.root().at("splits");
  ASSERT_EQ(splits.size(), static_cast<std::size_t>(kRandomSetCount));
  double worst = 0;
  std::array<int, kFaultKindCount> seen{}, costly{};
  int ignored = 0;
  for (int number = 0; number < kRandomSetCount; ++number) {
    SCOPED_TRACE(number);
    const RandomSet set = random_set(number);
    const ErrorSplit split = explain_detections(set.truth, set.found).error_split;
    const JsonView golden = splits.at(static_cast<std::size_t>(number));
    ASSERT_FALSE(golden.raw().IsNull());
    worst = std::max(worst, expect_equal(split, golden));
    for (std::size_t i = 0; i < kFaultKindCount; ++i) {
      seen[i] += split.kinds[i].count > 0;
      costly[i] += split.kinds[i].ap_cost > 0;
      ignored += split.kinds[i].ignored > 0;
    }
  }
  std::printf("200 random sets: largest difference from tidecv %.1e (bound %.0e)\n", worst,
              kTolerance);
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    EXPECT_GE(seen[i], 25) << fault_name(static_cast<FaultKind>(i));
    EXPECT_GE(costly[i], 5) << fault_name(static_cast<FaultKind>(i));
  }
  EXPECT_GE(ignored, 25);
}

void expect_equal_to_fixture(const std::string& folder, const char* name) {
  const Instances truth = read_instances(folder + "/gt.json");
  const Explanation explanation = explain_detections(truth, read_results(folder + "/dt_bbox.json"));
  const JsonFile file = goldens();
  expect_equal(explanation.error_split, file.root().at("fixtures").at(name));
}

TEST(TideParity, RealGroundTruthWithCrowdsEqualsTidecv) {
  RETINA_DATA_OR_SKIP(folder, "eval/tinycoco_val");
  expect_equal_to_fixture(folder, "tinycoco_val");
}

// --- as tidecv defines it --------------------------------------------------------------------

ErrorSplit split_of(const Scene& scene) {
  return explain_detections(scene.truth, scene.found).error_split;
}
const ErrorSplit::Kind& of(const ErrorSplit& split, FaultKind kind) {
  return split.kinds[static_cast<std::size_t>(kind)];
}

TEST(Tide, NothingFoundAndNothingToFindIsZeroWhereTidecvDividesByZero) {
  const ErrorSplit split = split_of(Scene());
  EXPECT_EQ(split.ap, 0);
  EXPECT_EQ(split.false_positive_cost, 0);
  EXPECT_EQ(split.false_negative_cost, 0);
  for (const ErrorSplit::Kind& kind : split.kinds) EXPECT_EQ(kind.ap_cost, 0);
}

TEST(Tide, ACorrectionThatLeavesNothingCountsAsAllRightWhereTidecvDividesByZero) {
  Scene missed;
  missed.object(1, 3, {0, 0, 40, 40});
  EXPECT_EQ(of(split_of(missed), FaultKind::kMissed).ap_cost, 1);
  EXPECT_EQ(split_of(missed).false_negative_cost, 1);
  EXPECT_EQ(split_of(missed).false_positive_cost, 0);
  Scene invented;
  invented.detect(1, 3, {0, 0, 40, 40}, .5);
  EXPECT_EQ(of(split_of(invented), FaultKind::kBackground).ap_cost, 1);
}

TEST(Tide, ScoresOfMinusOneAndBelowCorrectNothing) {
  for (const double score : {-.5, -1.0}) {
    Scene scene;
    scene.object(1, 3, {0, 0, 100, 100});
    scene.detect(1, 3, {0, 0, 40, 100}, score);
    const ErrorSplit split = split_of(scene);
    EXPECT_EQ(of(split, FaultKind::kLocalisation).count, 1);
    EXPECT_EQ(of(split, FaultKind::kMissed).count, 0);  // usable all the same
    EXPECT_EQ(of(split, FaultKind::kLocalisation).ap_cost, score > -1 ? 1 : 0);
  }
}

}  // namespace
}  // namespace retina
