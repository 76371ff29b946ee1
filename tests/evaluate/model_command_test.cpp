// retina-eval --model: checkpoints over shards, alone and on several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/results.h"
#include "shared/shard/manifest.h"
#include "tests/evaluate/tiny_model_command.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr int kImageCount = 7;

class ModelCommand : public TinyModelCommand {
 protected:
  static void SetUpTestSuite() {
    TinyModelCommand::SetUpTestSuite();
    truth_ = new Instances(write_tiny_shards(*shared_ / "shards", kImageCount));
  }
  static void TearDownTestSuite() {
    delete truth_;
    TinyModelCommand::TearDownTestSuite();
  }

  std::vector<std::string> command(const std::string& output,
                                   const std::vector<std::string>& more = {}) const {
    return command_on({"--data", data_}, output, more);
  }

  static inline Instances* truth_ = nullptr;
  std::string data_ = *shared_ / "shards";
};

TEST_F(ModelCommand, WritesResultsMetricsReportAndImages) {
  const ProcessResult result = run_process(command("out", {"--draw", "3,score=0"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Average Precision"));
  const auto detections = read_results(folder_ / "out/detections.json");
  ASSERT_FALSE(detections.empty());
  for (const Detection& one : detections) {
    EXPECT_TRUE(one.category_id == 3 || one.category_id == 5 || one.category_id == 9);
    EXPECT_GE(one.bbox[0], 0);
    EXPECT_LE(one.bbox[0] + one.bbox[2], 160.01);
  }
  EXPECT_THAT(read_file(folder_ / "out/report.html"), HasSubstr("data:image/jpeg"));
  const std::filesystem::directory_iterator drawn(folder_ / "out/drawn");
  EXPECT_EQ(std::distance(begin(drawn), end(drawn)), 3);

  // Its own results scored again give the same numbers.
  write_file_atomically(folder_ / "instances.json", instances_to_json(*truth_));
  const ProcessResult scored =
      run_process({"retina-eval", "--detections", folder_ / "out/detections.json", "--annotations",
                   folder_ / "instances.json", "--output", folder_ / "scored"});
  ASSERT_EQ(scored.exit_code, 0) << scored.err;
  EXPECT_EQ(read_file(folder_ / "scored/metrics.json"), read_file(folder_ / "out/metrics.json"));
  const ProcessResult on_shards =
      run_process({"retina-eval", "--detections", folder_ / "out/detections.json", "--data", data_,
                   "--output", folder_ / "on-shards"});
  ASSERT_EQ(on_shards.exit_code, 0) << on_shards.err;
  EXPECT_EQ(read_file(folder_ / "on-shards/metrics.json"), read_file(folder_ / "out/metrics.json"));
  EXPECT_THAT(read_file(folder_ / "on-shards/report.html"), HasSubstr("data:image/jpeg"));
}

TEST_F(ModelCommand, NamesTheFileOfEveryImage) {
  ASSERT_EQ(run_process(command("out", {"--draw", "1"})).exit_code, 0);
  const JsonFile detections = JsonFile::read(folder_ / "out/detections.json");
  for (std::size_t i = 0; i < detections.root().size(); ++i) {
    const JsonView one = detections.root().at(i);
    EXPECT_EQ(one.at("file_name").as_string(),
              cat("tiny/", one.at("image_id").as_int() - 1000, ".jpg"));
  }
  const JsonFile metrics = JsonFile::read(folder_ / "out/metrics.json");
  const JsonView names = metrics.root().at("file_names");
  for (const char* list : {"ap_lost", "confident_wrong", "largest_missed"}) {
    const JsonView ids = metrics.root().at("worst").at(list);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t id = ids.at(i).as_int();
      EXPECT_EQ(names.at(cat(id).c_str()).as_string(), cat("tiny/", id - 1000, ".jpg"));
    }
  }
  const std::filesystem::directory_iterator drawn(folder_ / "out/drawn");
  EXPECT_TRUE(name_matches(drawn->path().filename().string(), "10[0-9]+_tiny_[0-9]+\\.jpg"))
      << drawn->path();
}

TEST_F(ModelCommand, ThreeRanksWriteTheSameBytesAsOneProcess) {
  const ProcessResult alone = run_process(command("alone", {"--images-per-batch", "2"}));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const ProcessResult ranks =
      run_process(under_mpirun(3, command("ranks", {"--images-per-batch", "2"})));
  ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
  EXPECT_EQ(read_file(folder_ / "alone/detections.json"),
            read_file(folder_ / "ranks/detections.json"));
  EXPECT_EQ(read_file(folder_ / "alone/metrics.json"), read_file(folder_ / "ranks/metrics.json"));

  // Run again on another number of ranks: the same evaluation, one line.
  const ProcessResult again = run_process(under_mpirun(2, command("alone")));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(std::count(again.out.begin(), again.out.end(), '\n'), 1) << again.out;
}

TEST_F(ModelCommand, AnApBelowTheWantedOneIsExitOneUnderMpirunToo) {
  const ProcessResult result =
      run_process(under_mpirun(2, command("out", {"--min-score", "0.99", "--max-images", "2"})));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("below --min-score 0.99"));
}

TEST_F(ModelCommand, QuarantinedImagesAreToldWithTheNumbersAndTheVerdict) {
  data_ = folder_ / "shards";
  std::filesystem::copy(*shared_ / "shards", data_);
  Manifest manifest = read_manifest(data_);
  manifest.counts.quarantined = 2;
  write_file_atomically(data_ + "/" + kManifestFile, encode_manifest(manifest));
  const std::string told = "2 images of the set are quarantined";
  const auto low = run_process(command("out", {"--min-score", "0.99"}));
  EXPECT_EQ(low.exit_code, 1) << low.err;
  EXPECT_THAT(low.err, HasSubstr("warning: " + told));
  EXPECT_THAT(low.err, HasSubstr("(without 2 quarantined images) is below --min-score 0.99"));
  EXPECT_THAT(read_file(folder_ / "out/report.html"), HasSubstr(told));
  const JsonFile metrics = JsonFile::read(folder_ / "out/metrics.json");
  EXPECT_EQ(metrics.root().at("quarantined_count").as_int(), 2);

  const auto again = run_process(command("out", {"--min-score", "0"}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("(without 2 quarantined images) reaches --min-score 0"));
}

// It would find nothing, or boxes that are no numbers.
TEST_F(ModelCommand, ACheckpointThatDivergedIsBadData) {
  Checkpoint checkpoint = load_checkpoint(model_);
  model_ = folder_ / "diverged.pt";
  checkpoint.model.front().tensor.view({-1})[0] = std::numeric_limits<float>::quiet_NaN();
  save_checkpoint(model_, checkpoint);
  expect_refusal(run_process(command("out")), 65, "has values that are not finite");
}

// Two checkpoints of equal weights as a run of two epochs, the first the better.
TEST_F(ModelCommand, ARunsFolderMeansItsBestCheckpoint) {
  Checkpoint checkpoint = load_checkpoint(model_);
  model_ = folder_ / "run";
  make_folder(model_);
  checkpoint.trainer_json = R"({"step":5,"ap":0.25})";
  save_checkpoint(model_ + "/checkpoint-01.pt", checkpoint);
  checkpoint.trainer_json = R"({"step":10,"ap":0.125})";
  save_checkpoint(model_ + "/checkpoint-02.pt", checkpoint);
  const auto first = run_process(under_mpirun(2, command("out")));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(
      first.err,
      HasSubstr("run: taking checkpoint-01.pt, the best: validation metric 0.2500 at step 5"));
  EXPECT_THAT(read_file(folder_ / "out/report.html"), HasSubstr("run/checkpoint-01.pt on "));

  // The named file is the same evaluation, another best is another one.
  EXPECT_THAT(run_process(command("out")).out, HasSubstr("already evaluated"));
  checkpoint.trainer_json = R"({"step":15,"ap":0.5})";
  save_checkpoint(model_ + "/checkpoint-03.pt", checkpoint);
  const auto moved = run_process(command("out"));
  EXPECT_EQ(moved.exit_code, 78) << moved.err;
  EXPECT_THAT(moved.err, HasSubstr("holds another evaluation: model (was"));
  EXPECT_EQ(run_process(command("out", {"--overwrite"})).exit_code, 0);
}

TEST_F(ModelCommand, AModelOfOtherClassesIsRefusedNamingThem) {
  Checkpoint checkpoint = load_checkpoint(model_);
  checkpoint.categories[1].name = "horse";
  model_ = folder_ / "other.pt";
  save_checkpoint(model_, checkpoint);
  const ProcessResult result = run_process(command("out"));
  expect_refusal(result, 78, "class 2 is horse in the model and dog in the data");
}

TEST_F(ModelCommand, MissingInputsAreNamed) {
  data_ = folder_ / "no-shards";
  expect_refusal(run_process(command("out")), 66, "no-shards");
  data_ = *shared_ / "shards";
  model_ = folder_ / "no-model.pt";
  expect_refusal(run_process(command("out")), 66, "no-model.pt");
  expect_refusal(run_process(under_mpirun(2, command("out"))), 66, "no-model.pt");
}

TEST_F(ModelCommand, AGpuThatIsNotThereIsUnavailable) {
  if (std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "this machine has a GPU";
  auto arguments = command("out");
  *(std::find(arguments.begin(), arguments.end(), "cpu")) = "cuda";
  expect_refusal(run_process(arguments), 69, "cuda");
}

}  // namespace
}  // namespace retina
