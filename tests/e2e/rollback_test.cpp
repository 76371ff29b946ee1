// A loss that is not finite: the run ends, or leaves that step out. And saving by the clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

// The rendered pictures; one of them has a box whose size vanishes in f32, so that the logarithm of
// its width is not finite. Two steps are an epoch: one of each two has the picture.
class Rollback : public testing::Test {
 protected:
  Rollback() {
    const std::string scenes = job_ / "scenes";
    const std::string path = scenes + "/annotations/instances_train2017.json";
    const std::string key = "\"annotations\":";
    std::string text = read_file(path);
    const JsonFile file = JsonFile::parse(text, path);
    const JsonView first = file.root().at("annotations").at(std::size_t{0});
    image_ = first.at("image_id").as_int();
    const std::size_t place = text.find('[', text.find(key)) + 1;
    text.insert(place, cat("{\"id\": 999999, \"image_id\": ", image_,
                           ", \"category_id\": ", first.at("category_id").as_int(),
                           ", \"bbox\": [0, 0, 1e-45, 1e-45], \"area\": 1, \"iscrowd\": 0},"));
    write_file_atomically(path, text);
    const ProcessResult packed =
        run_process({"coco-pack", "--annotations", path, "--images", scenes + "/images/train2017",
                     "--output", job_ / "poisoned"});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
  }

  std::vector<std::string> command(const std::string& run, int steps,
                                   const std::vector<std::string>& more) const {
    return small_train_command(job_ / "poisoned", job_ / run, steps, more);
  }

  std::size_t left_out(const std::string& run) const {
    const std::string path = last_checkpoint(job_ / run);
    const JsonFile trainer = JsonFile::parse(read_checkpoint_header(path).trainer_json, path);
    return trainer.root().at("left_out_steps").size();
  }

  Job job_;
  std::int64_t image_ = 0;
};

TEST_F(Rollback, WithoutItTheRunEndsNamingStepAndImages) {
  const ProcessResult result = run_process(command("stop", 2, {}));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the loss is not finite"));
  EXPECT_THAT(result.err, HasSubstr(std::to_string(image_)));
}

TEST_F(Rollback, LeavesTheStepOutAndARestartDoesNotTryItAgain) {
  const std::vector<std::string> options = {"--on-nan", "rollback", "--checkpoint-every", "1steps"};
  const ProcessResult first = run_process(command("run", 3, options));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("this step is left out"));
  const std::size_t before = left_out("run");
  EXPECT_GE(before, 1U);
  EXPECT_EQ(steps_logged(job_ / "run"), 3 - static_cast<std::int64_t>(before));
  const ProcessResult second = run_process(under_mpirun(2, command("run", 6, options)));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(left_out("run"), 3U);
  EXPECT_EQ(steps_logged(job_ / "run"), 3);
  // The step that is left makes each of the three epochs whole.
  std::istringstream lines(read_file(job_ / "run/metrics.jsonl"));
  int whole_epochs = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"epoch_seconds\"") != std::string::npos) ++whole_epochs;
  }
  EXPECT_EQ(whole_epochs, 3);
}

TEST_F(Rollback, EndsTheRunWhenEveryStepGoesWrong) {
  auto words = command("run", 20, {"--on-nan", "rollback", "--norm", "frozen"});
  *(std::find(words.begin(), words.end(), "--lr") + 1) = "1e36";
  *(std::find(words.begin(), words.end(), "--clip-norm") + 1) = "0";
  const ProcessResult result = run_process(words);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("after 3 returns without a new checkpoint"));
}

TEST(CheckpointAuto, SavesByTheClockFromWhatOneCosts) {
  const Job job;
  const ProcessResult result = run_process(job.train_command(
      job / "run", 12, {"--checkpoint-every", "auto", "--mtbf", "1s", "--steps-per-epoch", "12"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("one costs training"));
  EXPECT_THAT(result.err, HasSubstr("failures every 1s"));
  const ProcessResult wrong =
      run_process(job.train_command(job / "run", 12, {"--mtbf", "sometimes"}));
  EXPECT_EQ(wrong.exit_code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("--mtbf"));
}

}  // namespace
}  // namespace retina
