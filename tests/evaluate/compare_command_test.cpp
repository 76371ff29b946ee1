// retina-eval --compare: what it takes, prints, writes, and answers to bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/coco/instances.h"
#include "shared/shard/shard_set.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// Twelve images with one object each, of two classes by turns. A finds the first eight, B all but
// the first.
class CompareCommand : public testing::Test {
 protected:
  CompareCommand() {
    std::string images, annotations, a, b;
    for (int id = 1; id <= 12; ++id) {
      const char* comma = id == 1 ? "" : ",";
      images += cat(comma, R"({"id": )", id, R"(, "file_name": "image-)", id,
                    R"(.jpg", "width": 100, "height": 100})");
      annotations += cat(comma, R"({"id": )", id, R"(, "image_id": )", id, R"(, "category_id": )",
                         5 + id % 2, R"(, "bbox": [10, 10, 40, 40], "area": 1600, "iscrowd": 0})");
      const std::string found = cat(R"({"image_id": )", id, R"(, "category_id": )", 5 + id % 2,
                                    R"(, "bbox": [10, 10, 40, 40], "score": 0.9})");
      if (id <= 8) a += (a.empty() ? "" : ",") + found;
      if (id > 1) b += (b.empty() ? "" : ",") + found;
    }
    write_file_atomically(truth_, cat(R"({"images": [)", images, R"(], "annotations": [)",
                                      annotations, R"(], "categories": [{"id": 5, "name": "even"},
                                      {"id": 6, "name": "odd"}, {"id": 7, "name": "none"}]})"));
    write_file_atomically(a_, "[" + a + "]");
    write_file_atomically(b_, "[" + b + "]");
  }

  ProcessResult score(const std::string& results, const std::string& output) const {
    return run_process({"retina-eval", "--detections", results, "--annotations", truth_, "--output",
                        output, "--overwrite"});
  }

  ProcessResult compare(const std::string& a, const std::string& b,
                        std::vector<std::string> more = {}) const {
    std::vector<std::string> command{"retina-eval", "--compare", a, b, "--output", output_};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command);
  }

  // One line on stderr, nothing on stdout, no result on disk.
  void expect_refusal(const ProcessResult& result, int exit_code,
                      const std::vector<std::string>& parts) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(path_exists(output_ + "/compare.json"));
  }

  TestFolder folder_;
  std::string truth_ = folder_ / "instances.json", a_ = folder_ / "a.json", b_ = folder_ / "b.json",
              output_ = folder_ / "output";
};

TEST_F(CompareCommand, ComparesResultsFilesOnGivenAnnotations) {
  const ProcessResult result = compare(a_, b_, {"--annotations", truth_});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr(cat("A: ", a_, "\nB: ", b_, "\n12 images, 12 objects")));
  EXPECT_THAT(result.out, HasSubstr("4 images better, 1 worse, 7 the same."));

  const JsonFile file = JsonFile::read(output_ + "/compare.json");
  const JsonView ap = file.root().at("stats").at(std::size_t{0});
  EXPECT_EQ(ap.at("name").as_string(), "AP");
  EXPECT_EQ(ap.at("difference").as_double(), ap.at("b").as_double() - ap.at("a").as_double());
  EXPECT_LT(ap.at("interval").at(std::size_t{0}).as_double(), ap.at("difference").as_double());
  EXPECT_GT(ap.at("interval").at(std::size_t{1}).as_double(), ap.at("difference").as_double());
  // Every second image: too few for intervals. "even" gains 2 of 6, "odd" gains 2 and loses 1.
  const JsonView classes = file.root().at("per_class");
  EXPECT_EQ(classes.at(std::size_t{0}).at("name").as_string(), "even");
  EXPECT_TRUE(classes.at(std::size_t{0}).at("interval").raw().IsNull());
  EXPECT_EQ(classes.at(std::size_t{2}).at("name").as_string(), "none");
  EXPECT_TRUE(classes.at(std::size_t{2}).at("difference").raw().IsNull());
  const JsonView images = file.root().at("images");
  ASSERT_EQ(images.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(images.at(i).at("gain").as_double(), i == 0 ? -1 : i < 8 ? 0 : 1) << i;
  }
  EXPECT_EQ(file.root().at("better").at(std::size_t{0}).as_int(), 9);
  EXPECT_EQ(file.root().at("worse").at(std::size_t{0}).as_int(), 1);
  const std::string page = read_file(output_ + "/compare.html");
  for (const char* part : {"Comparison", "even", "\"better_count\": 4", "image-9.jpg"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// 150 objects on an image, all found by A and half of them by B.
TEST_F(CompareCommand, CountsAsManyDetectionsAsTheEvaluationsDid) {
  std::string annotations, a, b;
  for (int i = 0; i < 150; ++i) {
    const std::string box = cat("[", 50 * i, ", 0, 40, 40]"), comma = i == 0 ? "" : ",";
    annotations += cat(comma, R"({"id": )", i + 1, R"(, "image_id": 1, "category_id": 5, "bbox": )",
                       box, R"(, "area": 1600, "iscrowd": 0})");
    const std::string found =
        cat(R"({"image_id": 1, "category_id": 5, "bbox": )", box, R"(, "score": 0.9})");
    a += comma + found;
    if (i % 2 == 0) b += comma + found;
  }
  write_file_atomically(truth_, cat(R"({"images": [{"id": 1, "file_name": "1.jpg", "width": 9000,
    "height": 90}], "annotations": [)",
                                    annotations, R"(], "categories": [{"id": 5, "name": "x"}]})"));
  write_file_atomically(a_, "[" + a + "]");
  write_file_atomically(b_, "[" + b + "]");
  const auto scored = [&](const std::string& results, const char* output, const char* count) {
    return run_process({"retina-eval", "--detections", results, "--annotations", truth_, "--output",
                        folder_ / output, "--count-best", count});
  };
  ASSERT_EQ(scored(a_, "A", "200").exit_code, 0);
  ASSERT_EQ(scored(b_, "B", "200").exit_code, 0);
  ASSERT_EQ(scored(b_, "C", "100").exit_code, 0);
  EXPECT_EQ(scored(a_, "A", "300").exit_code, 78) << "another evaluation";
  EXPECT_EQ(scored(a_, "A", "99").exit_code, 64);
  const ProcessResult result = compare(folder_ / "A", folder_ / "B");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonFile file = JsonFile::read(output_ + "/compare.json");
  EXPECT_EQ(file.root().at("stats").at(std::size_t{0}).at("a").as_double(), 1);
  remove_file(output_ + "/compare.json");
  expect_refusal(compare(folder_ / "A", folder_ / "C"), 78, {"--count-best was 200 and 100"});
  EXPECT_EQ(compare(folder_ / "A", folder_ / "C", {"--count-best", "150", "--overwrite"}).exit_code,
            0);
}

TEST_F(CompareCommand, FoldersKnowTheirGroundTruthAndResults) {
  ASSERT_EQ(score(a_, folder_ / "A").exit_code, 0);
  ASSERT_EQ(score(b_, folder_ / "B").exit_code, 0);
  const ProcessResult folders = compare(folder_ / "A", folder_ / "B");
  ASSERT_EQ(folders.exit_code, 0) << folders.err;
  const std::string both = read_file(output_ + "/compare.json");
  for (const char* side : {"a", "b"}) {
    const JsonFile metrics =
        JsonFile::read(cat(folder_ / (*side == 'a' ? "A" : "B"), "/metrics.json"));
    const JsonFile file = JsonFile::parse(both, "compare.json");
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(file.root().at("stats").at(i).at(side).as_double(),
                metrics.root().at("stats").at(i).as_double());
    }
  }
  // The other one of a folder may be a file.
  EXPECT_EQ(compare(folder_ / "A", b_, {"--overwrite"}).exit_code, 0);
  EXPECT_EQ(compare(a_, folder_ / "B", {"--overwrite"}).exit_code, 0);
}

TEST_F(CompareCommand, TheSameAgainIsOneLineAndOtherInputsAreRefused) {
  ASSERT_EQ(compare(a_, b_, {"--annotations", truth_}).exit_code, 0);
  const ProcessResult again = compare(a_, b_, {"--annotations", truth_});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(std::count(again.out.begin(), again.out.end(), '\n'), 1) << again.out;
  EXPECT_THAT(again.out, HasSubstr("already compared, AP "));

  const std::string before = read_file(output_ + "/compare.json");
  const ProcessResult refused = compare(b_, a_, {"--annotations", truth_});
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_THAT(refused.err, HasSubstr("holds another evaluation: compare-a (was"));
  EXPECT_EQ(read_file(output_ + "/compare.json"), before);
  EXPECT_EQ(compare(b_, a_, {"--annotations", truth_, "--overwrite"}).exit_code, 0);
  EXPECT_NE(read_file(output_ + "/compare.json"), before);
}

TEST_F(CompareCommand, ComparisonsAndEvaluationsReplaceEachOtherWholly) {
  ASSERT_EQ(score(a_, output_).exit_code, 0);
  EXPECT_EQ(compare(a_, b_, {"--annotations", truth_}).exit_code, 78);
  EXPECT_TRUE(path_exists(output_ + "/metrics.json"));
  ASSERT_EQ(compare(a_, b_, {"--annotations", truth_, "--overwrite"}).exit_code, 0);
  EXPECT_FALSE(path_exists(output_ + "/metrics.json"));
  EXPECT_FALSE(path_exists(output_ + "/report.html"));
  ASSERT_EQ(score(a_, output_).exit_code, 0);
  EXPECT_FALSE(path_exists(output_ + "/compare.json"));
  EXPECT_FALSE(path_exists(output_ + "/compare.html"));
}

TEST_F(CompareCommand, OneOfTheTwoIsNeverTheOutput) {
  ASSERT_EQ(score(a_, output_).exit_code, 0);
  const std::string config = read_file(output_ + "/config.json");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--overwrite"}}) {
    expect_refusal(compare(output_, b_, more), 78, {"is one of the two folders"});
    EXPECT_EQ(read_file(output_ + "/config.json"), config);
  }
}

TEST_F(CompareCommand, DifferentGroundTruthIsOneErrorNamingBoth) {
  ASSERT_EQ(score(a_, folder_ / "A").exit_code, 0);
  const std::string first = read_file(truth_);
  std::string other = first;
  other.replace(other.find("1600"), 4, "1500");
  write_file_atomically(truth_, other);
  ASSERT_EQ(score(b_, folder_ / "B").exit_code, 0);
  expect_refusal(compare(folder_ / "A", folder_ / "B"), 78,
                 {folder_ / "A", folder_ / "B", "evaluated on different ground truth",
                  "give --annotations or --data"});
  // Given, it is what counts; that A's numbers change with it is a warning.
  const ProcessResult given = compare(folder_ / "A", folder_ / "B", {"--annotations", truth_});
  EXPECT_EQ(given.exit_code, 0) << given.err;
  EXPECT_THAT(given.err,
              HasSubstr(cat("warning: ", folder_ / "A", ": was evaluated on other ground truth")));
  EXPECT_EQ(std::count(given.err.begin(), given.err.end(), '\n'), 1) << given.err;
}

TEST_F(CompareCommand, FilesThatChangedSinceAreRefusedNamingThem) {
  ASSERT_EQ(score(a_, folder_ / "A").exit_code, 0);
  ASSERT_EQ(score(b_, folder_ / "B").exit_code, 0);
  const std::string results = read_file(b_), truth = read_file(truth_);
  write_file_atomically(b_, "[]");
  expect_refusal(compare(folder_ / "A", folder_ / "B"), 78,
                 {folder_ / "B", b_, "have changed since"});
  write_file_atomically(b_, results);
  write_file_atomically(truth_, truth + "\n");
  expect_refusal(compare(folder_ / "A", folder_ / "B"), 78,
                 {folder_ / "A", truth_, "has changed since"});
  remove_file(truth_);
  expect_refusal(compare(folder_ / "A", folder_ / "B"), 66,
                 {folder_ / "A", truth_, "is not there"});
  write_file_atomically(truth_, truth);
  remove_file(b_);
  expect_refusal(compare(folder_ / "A", folder_ / "B"), 66, {folder_ / "B", b_, "are not there"});
}

TEST_F(CompareCommand, WhatIsNoEvaluationIsMissingInput) {
  expect_refusal(compare(a_, folder_ / "nothing", {"--annotations", truth_}), 66,
                 {folder_ / "nothing"});
  make_folder(folder_ / "empty");
  expect_refusal(compare(folder_ / "empty", b_, {"--annotations", truth_}), 66,
                 {folder_ / "empty", "it has no config.json"});
  ASSERT_EQ(score(a_, folder_ / "A").exit_code, 0);
  remove_file(folder_ / "A/metrics.json");
  expect_refusal(compare(folder_ / "A", b_), 66, {folder_ / "A", "is not finished"});
  write_file_atomically(folder_ / "A/config.json", R"({"fixed": {"lr": 0.1}})");
  expect_refusal(compare(folder_ / "A", b_), 66, {folder_ / "A", "is not that of an evaluation"});
  write_file_atomically(folder_ / "A/config.json", "{");
  expect_refusal(compare(folder_ / "A", b_), 65, {"config.json: not valid JSON"});
}

TEST_F(CompareCommand, AComparisonIsNoEvaluation) {
  ASSERT_EQ(compare(a_, b_, {"--annotations", truth_}).exit_code, 0);
  const std::string first = output_;
  output_ = folder_ / "second";
  expect_refusal(compare(first, b_), 66, {"is a comparison"});
}

TEST_F(CompareCommand, BadContentIsBadDataNamingTheFile) {
  const std::string results = read_file(b_);
  write_file_atomically(b_, results.substr(0, results.size() / 2));
  expect_refusal(compare(a_, b_, {"--annotations", truth_}), 65, {"b.json: not valid JSON"});
  write_file_atomically(
      b_, R"([{"image_id": 99, "category_id": 5, "bbox": [1, 1, 2, 2], "score": 1}])");
  expect_refusal(compare(a_, b_, {"--annotations", truth_}), 65, {"b.json: entry 0: image id 99"});
}

TEST_F(CompareCommand, AWrongCommandLineIsUsage) {
  expect_refusal(compare(a_, b_), 64, {"give --annotations or --data"});
  expect_refusal(run_process({"retina-eval", "--compare", a_, "--output", output_}), 64,
                 {"--compare: wants two values, A B (got 1)"});
  expect_refusal(compare(a_, b_, {"--annotations", truth_, "--data", "d"}), 64, {"not both"});
  expect_refusal(run_process({"retina-eval", "--compare", a_, b_}), 64, {"--output is missing"});
  for (const char* option : {"--model", "--detections"}) {
    expect_refusal(compare(a_, b_, {option, a_}), 64, {cat(option, ": has no effect")});
  }
  for (const char* option : {"--min-score", "--max-images", "--draw", "--max-detections"}) {
    expect_refusal(compare(a_, b_, {option, "1"}), 64, {cat(option, ": has no effect")});
  }
  expect_refusal(compare(a_, b_, {"--expect-ranks", "2"}), 78, {"--expect-ranks"});
}

// Models' folders: the shards are their ground truth, as far as --max-images went.
TEST_F(CompareCommand, EvaluationsOfModelsAreComparedOnTheirShards) {
  const std::string shards = folder_ / "shards";
  write_tiny_shards(shards, 12);
  for (const int number : {1, 2}) {
    const std::string model = cat(folder_ / "model", number, ".pt");
    write_tiny_checkpoint(model, tiny_network(static_cast<std::uint64_t>(number)));
    for (const char* images : {"0", "5"}) {
      const ProcessResult evaluated =
          run_process({"retina-eval", "--model", model, "--data", shards, "--output",
                       cat(folder_ / "evaluation", number, "-", images), "--score-threshold",
                       "0.001", "--max-images", images, "--device", "cpu"});
      ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
    }
  }
  const ProcessResult whole = compare(folder_ / "evaluation1-0", folder_ / "evaluation2-0");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("\n12 images, "));
  output_ = folder_ / "five";
  const ProcessResult five = compare(folder_ / "evaluation1-5", folder_ / "evaluation2-5");
  ASSERT_EQ(five.exit_code, 0) << five.err;
  EXPECT_THAT(five.out, HasSubstr("\n5 images, "));
  const JsonFile metrics = JsonFile::read(folder_ / "evaluation2-5/metrics.json");
  const JsonFile file = JsonFile::read(output_ + "/compare.json");
  EXPECT_EQ(file.root().at("stats").at(std::size_t{0}).at("b").as_double(),
            metrics.root().at("stats").at(std::size_t{0}).as_double());
  output_ = folder_ / "mixed";
  expect_refusal(compare(folder_ / "evaluation1-0", folder_ / "evaluation2-5"), 78,
                 {"evaluation1-0", "evaluation2-5", "--max-images was 0 and 5"});
  expect_refusal(compare(folder_ / "evaluation1-0", folder_ / "evaluation2-5", {"--data", shards}),
                 78, {"--max-images was 0 and 5"});
}

}  // namespace
}  // namespace retina
