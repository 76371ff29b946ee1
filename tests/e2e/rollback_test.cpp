// A loss that is not finite: the run ends, or leaves that step out. And saving by the clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "shared/anchor/anchor.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/instances.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

// The rendered images; in one of them all is of a class of its own, and training begins with
// weights that are as sure as f32 can say that nothing is of it: the loss of two anchors there
// overflows. Two steps are an epoch: one of each two has the image.
class Rollback : public testing::Test {
 protected:
  Rollback() {
    const std::string scenes = job_ / "scenes";
    Instances instances = read_instances(scenes + "/annotations/instances_train2017.json");
    image_ = instances.annotations.front().image_id;
    instances.categories.push_back({.id = 999, .name = kClass});
    for (Annotation& item : instances.annotations) {
      if (item.image_id == image_) item.category_id = 999;
    }
    write_file_atomically(job_ / "poisoned.json", instances_to_json(instances));
    const ProcessResult packed =
        run_process({"coco-pack", "--annotations", job_ / "poisoned.json", "--images",
                     scenes + "/images/train2017", "--output", job_ / "poisoned"});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    const ProcessResult first =
        run_process(small_train_command(job_ / "poisoned", job_ / "first", 1));
    EXPECT_EQ(first.exit_code, 0) << first.err;
    Checkpoint weights = load_checkpoint(last_checkpoint(job_ / "first"));
    rule_out_class(weights);
    save_checkpoint(job_ / "sure.pt", weights);
  }

  static void rule_out_class(Checkpoint& weights) {
    const auto label = std::find_if(weights.categories.begin(), weights.categories.end(),
                                    [](const auto& item) { return item.name == kClass; }) -
                       weights.categories.begin();
    for (auto& item : weights.model) {
      if (!item.name.ends_with("cls_logits.bias")) continue;
      const at::Tensor of_anchors = item.tensor.view({kAnchorsPerCell, -1});
      of_anchors.select(1, label).fill_(std::numeric_limits<float>::lowest());
    }
  }

  std::vector<std::string> command(const std::string& run, int steps,
                                   const std::vector<std::string>& more) const {
    std::vector<std::string> words =
        small_train_command(job_ / "poisoned", job_ / run, steps,
                            {"--init", job_ / "sure.pt", "--class-loss", "focal,alpha=0.75"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::size_t left_out(const std::string& run) const {
    const std::string path = last_checkpoint(job_ / run);
    const JsonFile trainer = JsonFile::parse(read_checkpoint_header(path).trainer_json, path);
    return trainer.root().at("left_out_steps").size();
  }

  static constexpr const char* kClass = "of one image only";
  Job job_;
  std::int64_t image_ = 0;
};

TEST_F(Rollback, WithoutItTheRunEndsNamingStepAndImages) {
  const ProcessResult result = run_process(command("stop", 2, {}));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the loss is not finite"));
  EXPECT_THAT(result.err, HasSubstr(std::to_string(image_)));
  EXPECT_THAT(read_file(job_ / "stop/report.html"), HasSubstr("<title>retina-train: "));
}

TEST_F(Rollback, LeavesTheStepOutAndARestartDoesNotTryItAgain) {
  const std::vector<std::string> options = {"--on-nan", "rollback", "--checkpoint-every", "1steps"};
  const ProcessResult first = run_process(command("run", 3, options));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("this step is skipped"));
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
  auto words = command("run", 20, {"--on-nan", "rollback"});
  set_value(words, "--lr", "1e36");
  set_value(words, "--clip-norm", "0");
  const ProcessResult result = run_process(words);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("after 3 rollbacks without a new checkpoint"));
}

}  // namespace
}  // namespace retina
