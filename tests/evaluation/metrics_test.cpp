#include "shared/evaluation/score/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/evaluation/score/matching.h"
#include "shared/evaluation/score/metrics_text.h"
#include "shared/numeric/random.h"
#include "tests/evaluation/explained_scene.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

CocoMetrics score(const Scene& scene) {
  return evaluate_detections(scene.truth, scene.found);
}

TEST(Metrics, NoDetectionsScoreZeroAndNothingToFindMinusOne) {
  Scene scene;
  scene.object(1, 3, {10, 10, 20, 20});
  EXPECT_THAT(score(scene).stats, ElementsAre(0, 0, 0, 0, -1, -1, 0, 0, 0, 0, -1, -1));
  EXPECT_EQ(score(scene).per_class[1].stats[kAp], -1);
}

TEST(Metrics, AHigherLimitCountsAllOfAnImageAndClass) {
  Scene scene;
  for (int i = 0; i < 150; ++i) {
    const double x = 50.0 * i;
    scene.object(1, 3, {x, 0, 40, 40});
    scene.detect(1, 3, {x, 0, 40, 40}, .9);
  }
  const CocoMetrics coco = score(scene);
  EXPECT_NEAR(coco.stats[kAr100], 100.0 / 150, 1e-12);
  EXPECT_THAT(oddities_text(coco), HasSubstr("an image has 150 objects of one class, and the best "
                                             "100 detections"));
  const CocoMetrics all = evaluate_detections(BoxGroups(scene.truth, scene.found, 0, 150));
  EXPECT_EQ(all.stats[kAp], 1);
  EXPECT_EQ(all.stats[kAr10], coco.stats[kAr10]);
  EXPECT_EQ(oddities_text(all), "");
  EXPECT_THAT(coco_summary_text(all), HasSubstr("maxDets=150 ] = 1.000"));
  // Named for what it is.
  EXPECT_THAT(class_table_text(coco), HasSubstr("AR100"));
  EXPECT_THAT(class_table_text(all), HasSubstr("AR150"));
  const auto file =
      JsonFile::parse(metrics_json(all, explain_detections(scene.truth, scene.found)), "metrics");
  EXPECT_EQ(file.root().at("AR150").as_double(), 1);
  EXPECT_EQ(file.root().at("per_class").at(std::size_t{0}).at("AR150").as_double(), 1);
  EXPECT_EQ(file.root().at("count_best").as_int(), 150);
  EXPECT_FALSE(file.root().has("AR100"));
  EXPECT_EQ(stat_key(kAr100, 100), "AR100");
}

TEST(Metrics, ScoresOfZeroAndBelowAreCountedAndRankedLikeTheOthers) {
  Scene scene;
  scene.object(1, 3, {0, 0, 40, 40});
  scene.detect(1, 3, {0, 0, 40, 40}, -.5);
  scene.detect(1, 3, {100, 100, 40, 40}, -.75);
  scene.detect(1, 3, {100, 100, 40, 40}, 0);
  const CocoMetrics metrics = score(scene);
  EXPECT_NEAR(metrics.stats[kAp], .5, 1e-12);  // one false alarm above, one below
  EXPECT_EQ(metrics.low_score_count, 3);
  scene.detect(1, 99, {0, 0, 4, 4}, .5);
  EXPECT_EQ(oddities_text(score(scene)),
            "1 detection has a category that is not in the annotations (99): ignored; "
            "3 detections have a score of 0 or less: ranked like the others");
}

TEST(Metrics, LabelsFromZeroInThePlaceOfCategoryIdsAreTold) {
  Scene scene;
  scene.object(1, 3, {0, 0, 40, 40});
  for (const int64_t label : {9, 0, 8, 8, 11, 12, 13}) scene.detect(1, label, {0, 0, 4, 4}, .5);
  EXPECT_EQ(oddities_text(score(scene)),
            "7 detections have a category that is not in the annotations (0, 8, 9, 11, 12 and 1 "
            "more): ignored; category 0 looks like labels counted from 0: results want the "
            "annotations' category ids, which begin with 3");
  scene.truth.categories.push_back({.id = 0, .name = "background"});
  EXPECT_THAT(oddities_text(score(scene)), testing::Not(HasSubstr("counted from 0")));
}

TEST(Metrics, NoDetectionsAndScoresInPercentAreTold) {
  Scene scene;
  scene.object(1, 3, {0, 0, 40, 40});
  EXPECT_EQ(oddities_text(score(scene)),
            "there are no detections at all: every object counts as missed");
  scene.detect(1, 3, {0, 0, 40, 40}, 1);
  EXPECT_EQ(oddities_text(score(scene)), "");
  scene.detect(1, 3, {0, 0, 40, 40}, 87);
  EXPECT_THAT(oddities_text(score(scene)),
              HasSubstr("1 detection has a score above 1, as percent have"));
}

TEST(Metrics, AnObjectOfIdZeroIsNeverFoundAndTold) {
  Scene scene;
  scene.object(1, 3, {0, 0, 40, 40});
  scene.detect(1, 3, {0, 0, 40, 40}, .5);
  scene.truth.annotations[0].id = 0;
  EXPECT_EQ(score(scene).stats[kAp], 0);
  EXPECT_THAT(oddities_text(score(scene)), HasSubstr("an annotation has id 0"));
}

TEST(Metrics, NothingToFindIsASentence) {
  Scene scene;
  EXPECT_EQ(oddities_text(score(scene)),
            "no ground truth: none of the 2 images has an object to find (crowd regions do not "
            "count), so there is no AP");
  scene.object(1, 3, {0, 0, 40, 40});
  EXPECT_EQ(no_truth_text(score(scene)), "");
}

TEST(Metrics, ADetectionOnAnUnknownImageIsBadDataNamingTheId) {
  Scene scene;
  scene.detect(1, 3, {0, 0, 4, 4}, .5);
  scene.detect(4711, 3, {0, 0, 4, 4}, .5);
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { score(scene); }),
              HasSubstr("entry 1: image id 4711"));
}

TEST(Metrics, ThresholdsAreNumpysLinspace) {
  const std::array<double, kIouThresholdCount> numpys{
      0x1.0000000000000p-1, 0x1.199999999999ap-1, 0x1.3333333333333p-1, 0x1.4cccccccccccdp-1,
      0x1.6666666666666p-1, 0x1.8000000000000p-1, 0x1.999999999999ap-1, 0x1.b333333333333p-1,
      0x1.cccccccccccccp-1, 0x1.e666666666666p-1};
  EXPECT_EQ(coco_iou_thresholds(), numpys);
}

// --- equal to pycocotools --------------------------------------------------------------------

Scene read_scene(const JsonView& golden) {
  Scene scene;
  scene.truth = {};
  const JsonView truth = golden.at("truth"), results = golden.at("results");
  const auto box = [](const JsonView& values) {
    return std::array<double, 4>{
        values.at(std::size_t{0}).as_double(), values.at(std::size_t{1}).as_double(),
        values.at(std::size_t{2}).as_double(), values.at(std::size_t{3}).as_double()};
  };
  for (std::size_t i = 0; i < truth.at("images").size(); ++i) {
    scene.truth.images.push_back({.id = truth.at("images").at(i).at("id").as_int()});
  }
  for (std::size_t i = 0; i < truth.at("categories").size(); ++i) {
    scene.truth.categories.push_back({.id = truth.at("categories").at(i).at("id").as_int()});
  }
  for (std::size_t i = 0; i < truth.at("annotations").size(); ++i) {
    const JsonView one = truth.at("annotations").at(i);
    scene.truth.annotations.push_back({.id = one.at("id").as_int(),
                                       .image_id = one.at("image_id").as_int(),
                                       .category_id = one.at("category_id").as_int(),
                                       .bbox = box(one.at("bbox")),
                                       .area = one.at("area").as_double(),
                                       .iscrowd = one.at("iscrowd").as_int() != 0});
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const JsonView one = results.at(i);
    scene.detect(one.at("image_id").as_int(), one.at("category_id").as_int(), box(one.at("bbox")),
                 one.at("score").as_double());
  }
  return scene;
}

std::vector<double> numbers(const JsonView& list) {
  std::vector<double> values;
  for (std::size_t i = 0; i < list.size(); ++i) values.push_back(list.at(i).as_double());
  return values;
}

TEST(MetricsParity, EveryGoldenCaseEqualsPycocotools) {
  const auto file = JsonFile::read(RETINA_SOURCE_DIR "/tests/evaluation/golden/coco_cases.json");
  const JsonView cases = file.root().at("cases");
  ASSERT_GE(cases.size(), 15U);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const JsonView golden = cases.at(i);
    SCOPED_TRACE(golden.at("name").as_string());
    const CocoMetrics metrics = score(read_scene(golden));
    EXPECT_THAT(metrics.stats, Pointwise(DoubleNear(1e-12), numbers(golden.at("stats"))));
    EXPECT_EQ(coco_summary_text(metrics), golden.at("summary").as_string());
    ASSERT_EQ(metrics.per_class.size(), golden.at("per_class").size());
    for (std::size_t k = 0; k < metrics.per_class.size(); ++k) {
      EXPECT_THAT(metrics.per_class[k].stats,
                  Pointwise(DoubleNear(1e-12), numbers(golden.at("per_class").at(k))))
          << "class " << k;
    }
  }
}

void expect_equal_to_file(const std::string& folder) {
  const Instances truth = read_instances(folder + "/gt.json");
  const CocoMetrics metrics = evaluate_detections(truth, read_results(folder + "/dt_bbox.json"));
  const auto file = JsonFile::read(folder + "/expected_bbox.json");
  const JsonView expected = file.root().at("metrics");
  const std::array<const char*, kCocoStatCount> keys{"AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                                     "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    EXPECT_NEAR(metrics.stats[i], expected.at(keys[i]).as_double(), 1e-12) << keys[i];
  }
  const JsonView per_class = file.root().at("per_category_AP");
  int compared = 0;
  for (const ClassMetrics& one : metrics.per_class) {
    const std::string id = std::to_string(one.category_id);
    if (!per_class.has(id.c_str())) continue;
    EXPECT_NEAR(one.stats[kAp], per_class.at(id.c_str()).as_double(), 1e-12) << one.name;
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST(MetricsParity, RealGroundTruthWithCrowdsEqualsPycocotools) {
  RETINA_DATA_OR_SKIP(folder, "eval/tinycoco_val");
  expect_equal_to_file(folder);
}

// --- text ------------------------------------------------------------------------------------

TEST(MetricsText, TheTableHasOneRowAClassAndDashesForNothingToFind) {
  Scene scene;
  scene.object(1, 3, {0, 0, 40, 40});
  scene.detect(1, 3, {0, 0, 40, 40}, .5);
  CocoMetrics metrics = score(scene);
  metrics.per_class[1].name = "\x1b[2Jdog\n";  // must not reach a terminal
  const std::string text = class_table_text(metrics);
  EXPECT_THAT(text, HasSubstr("\ncat           1.000  1.000  1.000      -   1.000      -  1.000"));
  EXPECT_THAT(text, HasSubstr("\n\\x1b[2Jdog\\n      -      -      -      -       -"));
}

TEST(MetricsText, TheJsonKeepsEveryDigit) {
  Scene scene;
  scene.object(1, 3, {0, 0, 40, 40});
  scene.object(2, 3, {0, 0, 40, 40});
  scene.detect(1, 3, {0, 0, 40, 40}, .9);
  scene.detect(1, 3, {0, 0, 40, 40}, .8);
  scene.detect(2, 3, {0, 0, 40, 40}, .7);
  const CocoMetrics metrics = score(scene);
  const auto file = JsonFile::parse(
      metrics_json(metrics, explain_detections(scene.truth, scene.found)), "metrics.json");
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    EXPECT_EQ(file.root().at(stat_key(i, 100).c_str()).as_double(), metrics.stats[i]) << i;
  }
  EXPECT_THAT(numbers(file.root().at("stats")), testing::ElementsAreArray(metrics.stats));
  const JsonView cat = file.root().at("per_class").at(std::size_t{0});
  EXPECT_EQ(cat.at("name").as_string(), "cat");
  EXPECT_EQ(cat.at("AP").as_double(), metrics.stats[kAp]);
  EXPECT_EQ(cat.at("object_count").as_int(), 2);
}

}  // namespace
}  // namespace retina
