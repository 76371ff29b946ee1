// --precision fp16: steps that its loss scale skips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr, testing::Not;

class LossScale : public testing::Test {
 protected:
  std::vector<std::string> command(const std::string& run, int steps,
                                   const std::vector<std::string>& more) const {
    // CPUs take long for convolutions in half.
    std::vector<std::string> options = {"--fpn-channels", "64", "--head-convs", "1"};
    options.insert(options.end(), more.begin(), more.end());
    std::vector<std::string> words = job_.train_command(job_ / run, steps, options);
    set_value(words, "--images-per-step", "2");
    set_value(words, "--min-side", "32");
    set_value(words, "--max-side", "48");
    return words;
  }

  // Weights with a finite loss and a gradient that no scale of 1 or more brings into half's range:
  // where the class logits come from is a constant, and they grow by 60000 for each of it.
  void write_steep_weights(const std::string& name) const {
    const ProcessResult first = run_process(command("first", 1, {}));
    ASSERT_EQ(first.exit_code, 0) << first.err;
    Checkpoint weights = load_checkpoint(last_checkpoint(job_ / "first"));
    int changed = 0;
    for (auto& item : weights.model) {
      if (item.name.find("classification_head.") == std::string::npos) continue;
      const bool is_norm = item.tensor.dim() == 1 && item.name.find("conv.") != std::string::npos;
      if (item.name.ends_with("cls_logits.weight")) item.tensor.fill_(60000);
      if (is_norm && item.name.ends_with("weight")) item.tensor.zero_();
      if (is_norm && item.name.ends_with("bias")) item.tensor.fill_(1e-4);
      ++changed;
    }
    ASSERT_GE(changed, 4);
    save_checkpoint(job_ / name, weights);
  }

  const Job job_;
};

TEST_F(LossScale, IsInEachStepsLineAndTheRunLearns) {
  const ProcessResult result = run_process(command("run", 6, {"--precision", "fp16"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cpu has no float16 units for gradients, so"));
  const std::vector<JsonFile> lines = metric_lines(job_ / "run", "step_ms");
  ASSERT_EQ(lines.size(), 6U);
  double scale = 65536;
  bool has_updated = false;
  for (const JsonFile& line : lines) {
    EXPECT_EQ(line.root().at("loss_scale").as_double(), scale);
    const bool is_skipped = line.root().at("grad_norm").raw().IsNull();
    if (is_skipped) scale /= 2;
    has_updated = has_updated || !is_skipped;
    EXPECT_GT(line.root().at("loss").as_double(), 0);
  }
  EXPECT_TRUE(has_updated);
}

TEST_F(LossScale, IsTheSameOnAllRanks) {
  const std::vector<std::string> options = {
      "--precision", "fp16", "--wire", "fp16", "--check-replicas-every", "1"};
  const ProcessResult result = run_process(under_mpirun(2, command("run", 4, options)));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("holds different weights")));
  EXPECT_EQ(metric_lines(job_ / "run", "step_ms").size(), 4U);
}

// Over a restart, too.
TEST_F(LossScale, ThatFallsToOneInVainEndsTheRun) {
  write_steep_weights("steep.pt");
  const std::vector<std::string> options = {"--precision", "fp16", "--init", job_ / "steep.pt"};
  const ProcessResult begun = run_process(command("run", 5, options));
  ASSERT_EQ(begun.exit_code, 0) << begun.err;
  EXPECT_THAT(begun.err,
              HasSubstr("step 1: the gradient overflowed fp16 with a loss scale of 65536"));
  EXPECT_THAT(read_file(job_ / "run/report.html"), HasSubstr("Loss scale"));
  const ProcessResult result = run_process(command("run", 40, options));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("step 17: the gradient is not finite"));
  EXPECT_THAT(result.err, HasSubstr("with a loss scale of 1"));
  const std::vector<JsonFile> lines = metric_lines(job_ / "run", "step_ms");
  ASSERT_EQ(lines.size(), 16U);
  EXPECT_TRUE(lines[15].root().at("grad_norm").raw().IsNull());
  EXPECT_EQ(lines[15].root().at("loss_scale").as_double(), 2);
}

}  // namespace
}  // namespace retina
