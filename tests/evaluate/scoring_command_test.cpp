// retina-eval --detections: what it prints, writes, and answers to bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/metrics.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two images, one class: of two objects one is found, and one detection is wrong.
class ScoringCommand : public testing::Test {
 protected:
  ScoringCommand() {
    write_file_atomically(annotations_, R"({
      "images": [{"id": 1, "file_name": "1.jpg", "width": 100, "height": 100},
                 {"id": 2, "file_name": "2.jpg", "width": 100, "height": 100}],
      "categories": [{"id": 7, "name": "cell"}],
      "annotations": [
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [10, 10, 40, 40], "area": 1600,
         "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 7, "bbox": [10, 10, 40, 40], "area": 1600,
         "iscrowd": 0}]})");
    write_file_atomically(detections_, R"([
      {"image_id": 1, "category_id": 7, "bbox": [10, 10, 40, 40], "score": 0.9},
      {"image_id": 2, "category_id": 7, "bbox": [60, 60, 30, 30], "score": 0.8}])");
  }

  ProcessResult run(std::vector<std::string> more = {}) const {
    std::vector<std::string> command{"retina-eval", "--detections", detections_, "--annotations",
                                     annotations_,  "--output",     output_};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command);
  }

  // One line on stderr, nothing on stdout, no result on disk.
  void expect_refusal(const ProcessResult& result, int exit_code, const std::string& text) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(path_exists(output_ + "/metrics.json"));
  }

  TestFolder folder_;
  std::string annotations_ = folder_ / "instances.json", detections_ = folder_ / "results.json",
              output_ = folder_ / "output";
};

// Precision 1 up to recall 1/2: 51 of 101 points.
constexpr double kAverage = 51.0 / 101.0;

TEST_F(ScoringCommand, PrintsTheTwelveLinesAndWritesTheNumbers) {
  const ProcessResult result = run();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | "
                                    "maxDets=100 ] = 0.505\n"));
  EXPECT_THAT(result.out, HasSubstr(" Average Recall     (AR) @[ IoU=0.50:0.95 | area= large | "
                                    "maxDets=100 ] = -1.000\n"));
  EXPECT_THAT(result.out, HasSubstr("\ncell "));
  const JsonFile metrics = JsonFile::read(output_ + "/metrics.json");
  EXPECT_EQ(metrics.root().at("stats").size(), 12U);
  EXPECT_NEAR(metrics.root().at("stats").at(std::size_t{kAp}).as_double(), kAverage, 1e-12);
  EXPECT_THAT(read_file(output_ + "/report.html"), HasSubstr("cell"));
}

TEST_F(ScoringCommand, AnApBelowTheWantedOneIsExitOneWithAllResultsWritten) {
  EXPECT_EQ(run({"--min-score", "0.5"}).exit_code, 0);
  const ProcessResult result = run({"--min-score", "0.51", "--overwrite"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("AP 0.5050 is below --min-score 0.51"));
  EXPECT_TRUE(path_exists(output_ + "/metrics.json"));
}

TEST_F(ScoringCommand, TheSameAgainIsOneLineAndTheSameAnswer) {
  ASSERT_EQ(run().exit_code, 0);
  const ProcessResult again = run();
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(std::count(again.out.begin(), again.out.end(), '\n'), 1) << again.out;
  EXPECT_THAT(again.out, HasSubstr("already evaluated, AP 0.505"));
  EXPECT_EQ(run({"--min-score", "0.9"}).exit_code, 1);
}

TEST_F(ScoringCommand, OtherInputsInTheSameFolderAreRefusedNamingThem) {
  ASSERT_EQ(run().exit_code, 0);
  write_file_atomically(detections_, "[]");
  const ProcessResult refused = run();
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_THAT(refused.err, HasSubstr("detections (was"));
  EXPECT_THAT(refused.err, Not(HasSubstr("annotations (was")));
  const ProcessResult replaced = run({"--overwrite"});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_THAT(replaced.out, HasSubstr("] = 0.000"));
}

TEST_F(ScoringCommand, OptionsOfDetectingAreRefused) {
  for (const char* option : {"--max-images", "--draw", "--max-detections"}) {
    const ProcessResult refused = run({option, "5"});
    EXPECT_EQ(refused.exit_code, 64);
    EXPECT_THAT(refused.err, HasSubstr(cat(option, ": has no effect with --detections")));
  }
  EXPECT_EQ(run({"--expect-ranks", "2"}).exit_code, 78);
}

TEST_F(ScoringCommand, ATrainingRunsFolderIsNeverTaken) {
  make_folder(output_);
  for (const char* name : {"checkpoints.json", "metrics.jsonl"}) {
    write_file_atomically(output_ + "/" + name, "{}");
    const ProcessResult refused = run({"--overwrite"});
    EXPECT_EQ(refused.exit_code, 78);
    EXPECT_THAT(refused.err, HasSubstr("is the folder of a training run"));
    EXPECT_TRUE(path_exists(output_ + "/" + name));
    remove_file(output_ + "/" + name);
  }
}

TEST_F(ScoringCommand, NothingOfAnotherEvaluationStays) {
  make_folder(output_ + "/drawn");
  write_file_atomically(output_ + "/config.json", R"({"fixed": {"model": "0", "data": "0"}})");
  for (const char* name : {"drawn/7.jpg", "detections.json", "metrics.json"}) {
    write_file_atomically(output_ + "/" + name, "old");
  }
  EXPECT_EQ(run().exit_code, 78);
  EXPECT_EQ(run({"--overwrite"}).exit_code, 0);
  EXPECT_FALSE(path_exists(output_ + "/drawn/7.jpg"));
  EXPECT_FALSE(path_exists(output_ + "/detections.json"));
}

TEST_F(ScoringCommand, WhatNoEvaluationWroteIsNeverReplaced) {
  make_folder(output_);
  // A run that has just begun has a config.json and no other file yet.
  const std::string of_a_run = R"({"hash": "0", "fixed": {"lr": 0.01}})";
  for (const char* name : {"metrics.json", "report.html", "config.json"}) {
    const std::string path = output_ + "/" + name;
    write_file_atomically(path, of_a_run);
    for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--overwrite"}}) {
      const ProcessResult refused = run(more);
      EXPECT_EQ(refused.exit_code, 78);
      EXPECT_THAT(refused.err, HasSubstr(cat("holds ", name, ", which no evaluation wrote")));
      EXPECT_THAT(refused.err, Not(HasSubstr("overwrite")));
      EXPECT_EQ(read_file(path), of_a_run);
    }
    remove_file(path);
  }
  EXPECT_EQ(run().exit_code, 0);
}

TEST_F(ScoringCommand, ItsInputMayLieInItsFolder) {
  make_folder(output_ + "/drawn");
  const std::string input = output_ + "/detections.json", image = output_ + "/drawn/mine.jpg";
  write_file_atomically(input, read_file(detections_));
  write_file_atomically(image, "mine");
  detections_ = input;
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--overwrite"}}) {
    EXPECT_EQ(run(more).exit_code, 0);
    EXPECT_TRUE(path_exists(input));
    EXPECT_TRUE(path_exists(image)) << "no name that an evaluation gives";
  }
}

TEST_F(ScoringCommand, AnUnfinishedEvaluationIsDoneAfresh) {
  ASSERT_EQ(run().exit_code, 0);
  remove_file(output_ + "/metrics.json");
  const ProcessResult result = run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Average Precision"));
  EXPECT_TRUE(path_exists(output_ + "/metrics.json"));
}

TEST_F(ScoringCommand, UnknownCategoriesAndLowScoresCostOneWarningWithTheirCounts) {
  write_file_atomically(detections_,
                        R"([{"image_id": 1, "category_id": 8, "bbox": [1, 1, 2, 2], "score": 1},
                            {"image_id": 1, "category_id": 7, "bbox": [1, 1, 2, 2], "score": 0},
                            {"image_id": 1, "category_id": 7, "bbox": [1, 1, 2, 2], "score": -2}])");
  const ProcessResult result = run();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("warning: 1 detection has a category that is not in the annotations (8): "
                        "ignored; 2 detections have a score of 0 or less"));
  EXPECT_EQ(result.err.find("warning"), result.err.rfind("warning"));
}

TEST_F(ScoringCommand, AnAnnotationOfNegativeSizeIsBadData) {
  std::string text = read_file(annotations_);
  const std::string box = "[10, 10, 40, 40]";
  write_file_atomically(annotations_, text.replace(text.find(box), box.size(), "[9, 9, 1, -4]"));
  expect_refusal(run(), 65, "annotation id 1: bbox: got a size of 1 x -4, want at least 0 x 0");
}

TEST_F(ScoringCommand, WithoutGroundTruthASentenceStandsForTheNumbers) {
  const std::string text = read_file(annotations_);
  const std::size_t begin = text.find("\"annotations\": [");
  write_file_atomically(annotations_, text.substr(0, begin) + "\"annotations\": []}");
  const ProcessResult result = run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string sentence = "no ground truth: none of the 2 images has an object to find";
  EXPECT_THAT(result.out, HasSubstr(sentence));
  EXPECT_THAT(result.out, Not(HasSubstr("-1.000")));
  EXPECT_THAT(read_file(output_ + "/report.html"), HasSubstr(sentence));
  const JsonFile metrics = JsonFile::read(output_ + "/metrics.json");
  EXPECT_EQ(metrics.root().at("AP").as_double(), -1);
  const ProcessResult judged = run({"--min-score", "0.1"});
  EXPECT_EQ(judged.exit_code, 1);
  EXPECT_THAT(judged.err,
              HasSubstr("--min-score 0.1: there is no AP, because no object is to be found"));
}

// Of the objects [10, 10, 40, 40] on images of 100 x 100. Corners still have an AP of 0.3.
TEST_F(ScoringCommand, BoxesOfAnotherConventionAreNamedByScoringThem) {
  for (const auto& [box, reading] :
       {std::pair{"[10, 10, 50, 50]", "as corners x1, y1, x2, y2;"},
        {"[30, 30, 40, 40]", "as centre x, centre y, width, height;"},
        {"[0.1, 0.1, 0.4, 0.4]",
         "as x, y, width, height in shares of the image's sides, of which 1 is all;"},
        {"[100, 100, 500, 500]",
         "as corners x1, y1, x2, y2 in shares of the image's sides, of which 1000 is all;"}}) {
    write_file_atomically(
        detections_,
        cat(R"([{"image_id": 1, "category_id": 7, "score": 0.9, "bbox": )", box,
            R"(}, {"image_id": 2, "category_id": 7, "score": 0.8, "bbox": )", box, "}]"));
    const ProcessResult result = run({"--overwrite"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr(cat("AP is about 1.000 where the boxes are read ", reading)));
  }
}

TEST_F(ScoringCommand, LoadsNeitherLibTorchNorOpenMpi) {
  const ProcessResult libraries =
      run_process({"/usr/bin/ldd", std::string(RETINA_BIN_DIR) + "/retina-eval"});
  EXPECT_EQ(libraries.exit_code, 0) << libraries.err;
  EXPECT_THAT(libraries.out, HasSubstr("libcurl"));
  for (const char* other : {"torch", "libmpi"}) {
    EXPECT_THAT(libraries.out, Not(HasSubstr(other)));
  }
}

// A program that was copied by itself scores, and says what it lacks for models.
TEST_F(ScoringCommand, OnlyModelsNeedTheLibraryBesideTheProgram) {
  const std::string alone = folder_ / "retina-eval";
  std::filesystem::copy(std::string(RETINA_BIN_DIR) + "/retina-eval", alone);
  EXPECT_EQ(run_process({alone, "--detections", detections_, "--annotations", annotations_,
                         "--output", folder_ / "scored"})
                .exit_code,
            0);
  expect_refusal(run_process({alone, "--model", "m.pt", "--data", "d", "--output", output_}), 69,
                 "cannot open libretina_eval_model.so, which runs models");
}

TEST_F(ScoringCommand, AMissingFileIsMissingInput) {
  remove_file(annotations_);
  expect_refusal(run(), 66, "instances.json");
}

TEST_F(ScoringCommand, AnOutputThatCannotBeMadeIsSaidSo) {
  output_ = annotations_ + "/inside-a-file";
  expect_refusal(run(), 73, "cannot create the folder");
}

TEST_F(ScoringCommand, HalfACommandIsUsageNamingTheMissingOption) {
  const auto usage = [](const std::vector<std::string>& arguments, const std::string& text) {
    std::vector<std::string> command{"retina-eval"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 64);
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  usage({"--detections", "a.json", "--output", "o"}, "--annotations or --data is missing");
  usage({"--model", "a.pt", "--output", "o"}, "--data or --images is missing");
  usage({"--model", "a.pt", "--data", "d"}, "--output is missing");
  usage({"--model", "a.pt", "--detections", "d"}, "not both");
  usage({"--output", "o"}, "nothing to evaluate");
  usage({"--detections", "a", "--annotations", "b", "--output", "o", "--min-score", "45"},
        "--min-score: bad value (got \"45\", want 0 to 1)");
}

}  // namespace
}  // namespace retina
