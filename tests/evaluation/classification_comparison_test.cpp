// Two classifiers side by side, the intervals of shares, and the file that comparisons read.
#include "evaluate/compare/classification_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Proportion, IntervalsAreThoseOfNewcombe1998) {
  // "Two-sided confidence intervals for the single proportion", table I, method 3.
  struct Case {
    Proportion share;
    double low, high;
  };
  for (const Case& one : {Case{{81, 263}, .2553, .3662}, Case{{15, 148}, .0624, .1605},
                          Case{{0, 20}, 0, .1611}, Case{{1, 29}, .0061, .1718}}) {
    EXPECT_NEAR(one.share.interval()->low, one.low, 5e-5);
    EXPECT_NEAR(one.share.interval()->high, one.high, 5e-5);
  }
  EXPECT_EQ((Proportion{0, 20}.interval()->low), 0);
  EXPECT_EQ((Proportion{20, 20}.interval()->high), 1);
  EXPECT_NEAR((Proportion{20, 20}.interval()->low), 1 - .1611, 5e-5);
  EXPECT_FALSE(Proportion{}.value() || Proportion{}.interval());
}

TEST(PairedHits, TestAndIntervalAreThoseOfFagerland2013And2014) {
  // Airway hyper-responsiveness of 21 children: 1 and 7 discordant pairs.
  const PairedHits hits{.both = 1, .only_a = 1, .only_b = 7, .neither = 12};
  EXPECT_NEAR(hits.mid_p(), 10.0 / 256, 1e-15);
  EXPECT_DOUBLE_EQ(hits.difference().value(), 6.0 / 21);
  EXPECT_NEAR(hits.interval()->low, .013, 5e-4);
  EXPECT_NEAR(hits.interval()->high, .508, 5e-4);
  const PairedHits swapped{.both = 1, .only_a = 7, .only_b = 1, .neither = 12};
  EXPECT_DOUBLE_EQ(swapped.mid_p(), hits.mid_p());
  EXPECT_DOUBLE_EQ(swapped.interval()->low, -hits.interval()->high);
}

TEST(PairedHits, WithoutDiscordantImagesNothingTellsTheTwoApart) {
  EXPECT_EQ((PairedHits{.both = 5, .neither = 3}.mid_p()), 1);
  EXPECT_EQ((PairedHits{.only_a = 4, .only_b = 4}.mid_p()), 1);
  EXPECT_FALSE((PairedHits{.both = 5}.interval()->excludes_zero()));
  EXPECT_FALSE(PairedHits{}.difference() || PairedHits{}.interval());
}

// The sum, term by term in exact integers where they fit.
TEST(PairedHits, MidPEqualsTheSumOfTheBinomialTerms) {
  for (const std::int64_t trials : {1, 2, 9, 30, 60}) {
    std::vector<double> terms{1};  // of Pascal's row
    for (std::int64_t i = 1; i <= trials; ++i) {
      terms.push_back(
          std::round(terms.back() * static_cast<double>(trials - i + 1) / static_cast<double>(i)));
    }
    double below = 0;
    for (std::int64_t fewer = 0; 2 * fewer <= trials; ++fewer) {
      const double own = terms[static_cast<std::size_t>(fewer)];
      const double wanted = 2 * (below + own / 2) / std::exp2(trials);
      EXPECT_NEAR((PairedHits{.only_a = fewer, .only_b = trials - fewer}.mid_p()), wanted,
                  1e-12 * wanted)
          << fewer << " of " << trials;
      below += own;
    }
  }
  // Large counts: the normal approximation, 1.96 standard deviations from the middle.
  EXPECT_NEAR((PairedHits{.only_a = 500'000 - 980, .only_b = 500'000 + 980}.mid_p()), .05, 1e-5);
}

Categories three_classes() {
  return {{.id = 3, .name = "cat"}, {.id = 5, .name = "dog"}, {.id = 9, .name = ""}};
}

// Image `id` of the class 3, predicted as 3 or 5.
Prediction prediction(std::int64_t id, bool right, double confidence) {
  return {.image_id = id,
          .category_id = 3,
          .predicted_id = right ? 3 : 5,
          .confidence = confidence,
          .rank = right ? 0 : 1,
          .loss = right ? .1 : 2.0};
}

std::array<ClassifiedSide, 2> two_sides() {
  return {ClassifiedSide{.name = "A",
                         .predictions = {prediction(1, true, .9), prediction(2, false, .6),
                                         prediction(3, false, .8), prediction(4, false, .7)}},
          ClassifiedSide{.name = "B",
                         .predictions = {prediction(1, false, .5), prediction(2, true, .9),
                                         prediction(3, true, .9), prediction(4, false, .9)}}};
}

TEST(ClassificationComparison, CountsWhoIsRightAndListsWhoIsNot) {
  const ClassificationComparison result = compare_predictions(two_sides(), three_classes());
  EXPECT_EQ(result.image_count, 4);
  EXPECT_EQ(result.top1.only_a, 1);
  EXPECT_EQ(result.top1.only_b, 2);
  EXPECT_EQ(result.top1.neither, 1);
  EXPECT_EQ(result.top5.both, 4);
  EXPECT_DOUBLE_EQ(result.loss_a, (.1 + 6) / 4);
  EXPECT_DOUBLE_EQ(result.loss_b, (.2 + 4) / 4);
  ASSERT_EQ(result.only_b.size(), 2U);
  EXPECT_EQ(result.only_b[0].image_id, 3) << "the more confident mistake comes first";
  EXPECT_EQ(result.only_b[0].predicted_id, 5);
  EXPECT_EQ(result.only_a[0].image_id, 1);
  EXPECT_DOUBLE_EQ(result.per_class[0].hits.difference().value(), 1.0 / 4);
}

TEST(ClassificationComparison, TheLossIntervalIsThatOfThePairedMean) {
  const ClassificationComparison result = compare_predictions(two_sides(), three_classes());
  // Changes 1.9, -1.9, -1.9, 0: mean -.475, variance 3.3091...
  const double mean = -1.9 / 4;
  const double variance =
      ((1.9 - mean) * (1.9 - mean) + 2 * (-1.9 - mean) * (-1.9 - mean) + mean * mean) / 3;
  EXPECT_NEAR(result.loss_interval->low, mean - kNormalQuantile * std::sqrt(variance / 4), 1e-12);
  EXPECT_NEAR(result.loss_interval->high, mean + kNormalQuantile * std::sqrt(variance / 4), 1e-12);
}

std::string refusal(const std::array<ClassifiedSide, 2>& sides, ErrorKind kind) {
  return refusal_of(kind, [&] { compare_predictions(sides, three_classes()); });
}

TEST(ClassificationComparison, OtherImagesOrClassesAreRefusedNamingTheFirst) {
  std::array<ClassifiedSide, 2> sides = two_sides();
  sides[1].predictions.erase(sides[1].predictions.begin() + 1);
  EXPECT_EQ(refusal(sides, ErrorKind::kConfig),
            "A and B: not the same images (4 and 3; image 2 is only in the first)");
  sides[0].predictions.resize(1);
  EXPECT_EQ(refusal(sides, ErrorKind::kConfig),
            "A and B: not the same images (1 and 3; image 3 is only in the second)");
  sides = two_sides();
  sides[1].predictions[2].category_id = 5;
  EXPECT_EQ(refusal(sides, ErrorKind::kConfig),
            "A and B: not the same classes (image 3 is of category 3 and 5)");
  for (ClassifiedSide& side : sides) side.predictions = {prediction(1, true, .5)};
  for (ClassifiedSide& side : sides) side.predictions[0].category_id = 4;
  EXPECT_EQ(refusal(sides, ErrorKind::kData), "A: image 1: category 4 is not among its 3 classes");
}

TEST(ClassificationComparison, TextAndJsonHaveTheSameFigures) {
  const ClassificationComparison result = compare_predictions(two_sides(), three_classes());
  const ComparedNames names{.a = "first", .b = "second", .truth = "shards/val"};
  const std::string text = classification_comparison_text(names, result);
  EXPECT_THAT(text, AllOf(HasSubstr("A: first\nB: second\n4 images: shards/val\n"),
                          HasSubstr("top-1  0.250  0.500  +0.250"),
                          HasSubstr("Images right only in A: 1, only in B: 2; p 0.625 (McNemar)")));
  const JsonFile file =
      JsonFile::parse(classification_comparison_json(names, result), "compare.json");
  const JsonView top1 = file.root().at("top1");
  EXPECT_EQ(file.root().at("task").as_string(), "classification");
  EXPECT_EQ(top1.at("difference").as_double(), .25);
  EXPECT_EQ(top1.at("p").as_double(), result.top1.mid_p());
  EXPECT_EQ(top1.at("interval").at(std::size_t{1}).as_double(), result.top1.interval()->high);
  EXPECT_TRUE(file.root().at("per_class").at(std::size_t{2}).at("difference").raw().IsNull());
  EXPECT_EQ(file.root().at("only_b").size(), 2U);
}

TEST(Predictions, ReadBackAsWritten) {
  const TestFolder folder;
  const std::string path = folder / "predictions.jsonl";
  const std::vector<float> scores{1, 3, 2};
  const ClassOutcome one =
      class_outcome({.image_id = (std::int64_t{1} << 53) + 1, .label = 2, .scores = scores});
  const ClassOutcome first = class_outcome({.image_id = -4, .label = 1, .scores = scores});
  write_predictions(path, {first, one}, three_classes(), {{-4, "a/\xc3\xa9.jpg"}});
  const std::vector<Prediction> read = read_predictions(path);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].image_id, -4);
  EXPECT_EQ(read[0].file_name, "a/é.jpg");
  EXPECT_EQ(read[1].file_name, "");
  EXPECT_EQ(read[0].rank, 0);
  EXPECT_EQ(read[1].image_id, one.image_id);
  EXPECT_EQ(read[1].category_id, 9);
  EXPECT_EQ(read[1].predicted_id, 5);
  EXPECT_EQ(read[1].confidence, one.probabilities[0]);
  EXPECT_EQ(read[1].rank, 1);
  EXPECT_EQ(read[1].loss, one.loss);
  EXPECT_THAT(read_file(path), HasSubstr("\"top5\":[[5,"));
}

TEST(Predictions, DamageIsOneErrorNamingTheLine) {
  const TestFolder folder;
  const std::string path = folder / "predictions.jsonl";
  const std::string line = R"({"image_id":7,"category_id":3,"rank":0,"loss":0.1,"top5":[[3,0.9]]})";
  struct Case {
    std::string text, problem;
  };
  for (const Case& one :
       {Case{line + "\n{\"image_id\":8", "line 2"},
        Case{line + "\n" + line, "image ids must ascend"},
        Case{R"({"image_id":7,"category_id":3,"rank":0,"loss":0.1,"top5":[]})", "top5"},
        Case{R"({"image_id":7,"category_id":3,"loss":0.1,"top5":[[3,0.9]]})", "rank"}}) {
    write_file_atomically(path, one.text);
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { read_predictions(path); }),
                AllOf(HasSubstr(path + ": line "), HasSubstr(one.problem)));
  }
}

}  // namespace
}  // namespace retina
