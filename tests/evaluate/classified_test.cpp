// A classifier's evaluation from its outcomes on: files, exit code, the same again, and the
// comparison of two. The images are coco-pack's; what a model would have said of them is synthetic.
#include "evaluate/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evaluate/explain/predictions.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/cli/cli.h"
#include "shared/image/jpeg.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kImages = 12;

// Twelve images with ids 11, 12, ..., 22 of three classes with ids 3, 5, 9.
class Classify : public testing::Test {
 protected:
  // `more`: options of coco-pack.
  void pack(const std::vector<std::string>& more = {}) {
    make_folder(folder_ / "images");
    std::string images;
    for (int i = 0; i < kImages; ++i) {
      Image image(60 + i, 40);
      std::fill(image.rgb.begin(), image.rgb.end(), static_cast<std::uint8_t>(20 * i));
      const std::string name = cat(i, ".jpg");
      write_file_atomically(folder_ / ("images/" + name), encode_jpeg(image, 95));
      images += cat(i == 0 ? "" : ",", R"({"id": )", 11 + i, R"(, "file_name": ")", name,
                    R"(", "width": )", 60 + i, R"(, "height": 40})");
    }
    write_file_atomically(folder_ / "instances.json",
                          cat(R"({"images": [)", images, R"(], "annotations": [], "categories": [
                            {"id": 3, "name": "cat"}, {"id": 5, "name": "dog"},
                            {"id": 9, "name": "</script>cow"}]})"));
    std::vector<std::string> command{"coco-pack", "--annotations",    folder_ / "instances.json",
                                     "--images",  folder_ / "images", "--output",
                                     shards_};
    command.insert(command.end(), more.begin(), more.end());
    const ProcessResult packed = run_process(command);
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
  }

  // Class i % 3, predicted rightly unless i < `wrong_count`, then the next class, the more surely
  // the lower i.
  static std::vector<ClassOutcome> outcomes(int wrong_count) {
    std::vector<ClassOutcome> all;
    for (int i = 0; i < kImages; ++i) {
      std::vector<float> scores(3);
      const int label = i % 3, predicted = i < wrong_count ? (label + 1) % 3 : label;
      scores[static_cast<std::size_t>(predicted)] = 5 - 0.1F * static_cast<float>(i);
      all.push_back(class_outcome({.image_id = 11 + i, .label = label, .scores = scores}));
    }
    return all;
  }

  EvalOptions options(const std::string& output) {
    EvalOptions result;
    result.model = folder_ / "instances.json";  // any file: only its hash counts here
    result.data = shards_;
    result.output = output;
    return result;
  }

  struct Evaluated {
    int exit_code = -1;
    std::optional<double> done_top1{};
    std::string out{}, err{};
  };

  // As the half of retina-eval with the model does it.
  Evaluated evaluate(const EvalOptions& options, const std::vector<ClassOutcome>& outcomes) {
    const ShardSet shards(shards_);
    EvaluationFolder folder(options.output);
    Cli cli("retina-eval", "", "");
    EvalOptions declared = options;
    declare_options(cli, declared);
    Evaluated result;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    if (const auto done =
            folder.begin(classifier_identity(options, "0"), cli.effective(), options.overwrite)) {
      result.done_top1 = headline_metric(*done).as_double();
    }
    result.exit_code =
        result.done_top1
            ? already_done(options, folder, {Task::kClassification, *result.done_top1, 0})
            : evaluate_classifier_outputs(
                  options, cli, folder,
                  {.subject = "model on shards", .outcomes = outcomes, .shards = shards});
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }

  // One line on stderr, nothing on stdout, no result on disk.
  void expect_refusal(const ProcessResult& result, int exit_code,
                      const std::vector<std::string>& parts) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(path_exists(folder_ / "compared/compare.json"));
  }

  ProcessResult compare(const std::string& a, const std::string& b,
                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command{"retina-eval", "--compare",         a, b,
                                     "--output",    folder_ / "compared"};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command);
  }

  TestFolder folder_;
  std::string shards_ = folder_ / "shards", a_ = folder_ / "A", b_ = folder_ / "B";
};

TEST_F(Classify, WritesPredictionsPageAndFiguresAndPrintsThem) {
  pack();
  const Evaluated result = evaluate(options(a_), outcomes(3));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("top-1        0.7500"), HasSubstr("\ncat "),
                                HasSubstr(cat("report: ", a_, "/report.html\n"))));
  const JsonFile metrics = JsonFile::read(a_ + "/metrics.json");
  EXPECT_EQ(metrics.root().at("task").as_string(), "classification");
  EXPECT_EQ(metrics.root().at("top1").as_double(), .75);
  const std::vector<Prediction> predictions = read_predictions(a_ + "/predictions.jsonl");
  ASSERT_EQ(predictions.size(), 12U);
  EXPECT_EQ(predictions[0].image_id, 11);
  EXPECT_EQ(predictions[0].category_id, 3);
  EXPECT_EQ(predictions[0].predicted_id, 5);
  const std::string page = read_file(a_ + "/report.html");
  EXPECT_THAT(page, HasSubstr("\"11\":\"data:image/jpeg;base64,/9j/"));
  EXPECT_THAT(page, Not(HasSubstr("\"20\":\"data:"))) << "of mistakes alone";
  EXPECT_THAT(page, Not(HasSubstr("</script>cow")));
  EXPECT_FALSE(path_exists(a_ + "/detections.json"));
}

TEST_F(Classify, ATop1BelowTheWantedOneIsExitOneWithAllResultsWritten) {
  pack();
  EvalOptions wanted = options(a_);
  wanted.min_score = .75;
  EXPECT_EQ(evaluate(wanted, outcomes(3)).exit_code, 0);
  wanted.min_score = .76;
  wanted.overwrite = true;
  const Evaluated below = evaluate(wanted, outcomes(3));
  EXPECT_EQ(below.exit_code, 1);
  EXPECT_THAT(below.err, HasSubstr("top-1 0.7500 is below --min-score 0.76"));
  EXPECT_TRUE(path_exists(a_ + "/metrics.json"));
  // Done already, the answer is the same.
  wanted.overwrite = false;
  const Evaluated again = evaluate(wanted, {});
  EXPECT_EQ(again.done_top1, .75);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.out, HasSubstr("already evaluated, top-1 0.7500 (--overwrite"));
}

TEST_F(Classify, DrawWritesTheMostConfidentMistakes) {
  pack();
  EvalOptions drawing = options(a_);
  drawing.draw = 2;
  ASSERT_EQ(evaluate(drawing, outcomes(3)).exit_code, 0);
  EXPECT_TRUE(path_exists(a_ + "/drawn/11_0.jpg"));
  EXPECT_TRUE(path_exists(a_ + "/drawn/12_1.jpg"));
  EXPECT_FALSE(path_exists(a_ + "/drawn/13_2.jpg"));
  Image drawn;
  const std::string jpeg = read_file(a_ + "/drawn/11_0.jpg");
  ASSERT_TRUE(JpegDecoder().decode(jpeg, drawn).ok);
  EXPECT_EQ(drawn.width, 240) << "60 pixels four times as large";
  EXPECT_GT(drawn.height, 160) << "with room for the names";
}

TEST_F(Classify, NothingOfAnotherEvaluationStays) {
  pack();
  EvalOptions drawing = options(a_);
  drawing.draw = 1;
  ASSERT_EQ(evaluate(drawing, outcomes(3)).exit_code, 0);
  EvalOptions plain = options(a_);
  EXPECT_THROW(evaluate(plain, outcomes(2)), Error);
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  plain.overwrite = true;
  ASSERT_EQ(evaluate(plain, outcomes(2)).exit_code, 0);
  EXPECT_FALSE(path_exists(a_ + "/drawn/11_0.jpg"));
  // One of results replaces it wholly.
  write_file_atomically(folder_ / "results.json", "[]");
  const ProcessResult scored =
      run_process({"retina-eval", "--detections", folder_ / "results.json", "--annotations",
                   folder_ / "instances.json", "--output", a_, "--overwrite"});
  ASSERT_EQ(scored.exit_code, 0) << scored.err;
  EXPECT_FALSE(path_exists(a_ + "/predictions.jsonl"));
}

TEST_F(Classify, TwoEvaluationsCompareFromTheirFoldersAlone) {
  pack();
  ASSERT_EQ(evaluate(options(a_), outcomes(7)).exit_code, 0);
  ASSERT_EQ(evaluate(options(b_), outcomes(1)).exit_code, 0);
  remove_file(shards_ + "/manifest.json");
  const ProcessResult result = compare(a_, b_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("top-1  0.417  0.917  +0.500"),
                                HasSubstr("Images right only in A: 0, only in B: 6; p 0.016")));
  const JsonFile file = JsonFile::read(folder_ / "compared/compare.json");
  EXPECT_EQ(file.root().at("top1").at("only_b").as_int(), 6);
  EXPECT_NEAR(file.root().at("top1").at("p").as_double(), 1.0 / 64, 1e-15);
  EXPECT_THAT(
      read_file(folder_ / "compared/compare.html"),
      AllOf(HasSubstr("McNemar"), HasSubstr("\\u003c/script>cow"), Not(HasSubstr("</script>cow"))));
  const ProcessResult again = compare(a_, b_);
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("already compared, top-1 0.417 and 0.917"));
  EXPECT_EQ(compare(b_, a_).exit_code, 78);
}

TEST_F(Classify, WhatCannotBeComparedIsOneLineNamingBoth) {
  pack();
  ASSERT_EQ(evaluate(options(a_), outcomes(2)).exit_code, 0);
  write_file_atomically(folder_ / "results.json", "[]");
  ASSERT_EQ(run_process({"retina-eval", "--detections", folder_ / "results.json", "--annotations",
                         folder_ / "instances.json", "--output", b_})
                .exit_code,
            0);
  expect_refusal(compare(a_, b_), 78,
                 {a_, b_, "cannot be compared (got classification and detection, want one task)"});
  expect_refusal(compare(folder_ / "results.json", a_), 78, {"got detection and classification"});
  std::vector<ClassOutcome> fewer = outcomes(2);
  fewer.erase(fewer.begin());
  const std::string c = folder_ / "C";
  ASSERT_EQ(evaluate(options(c), fewer).exit_code, 0);
  expect_refusal(compare(a_, c), 78,
                 {a_, c, "not the same images (12 and 11; 0.jpg (image 11) is only"});
  expect_refusal(compare(a_, a_, {"--data", shards_}), 64, {"--data: has no effect"});
  remove_file(c + "/metrics.json");
  expect_refusal(compare(a_, c), 66, {c, "its evaluation is not finished"});
}

TEST(ClassifierOptions, ThoseOfDetectorsAreRefused) {
  EvalOptions options;
  options.model = "run";
  options.min_score = .5;
  EXPECT_NO_THROW(check_classifier_options(options));
  options.max_detections = 5;
  EXPECT_EQ(refusal_of(ErrorKind::kConfig, [&] { check_classifier_options(options); }),
            "--max-detections: has no meaning for run, which is a classifier");
}

}  // namespace
}  // namespace retina
