// The programs with --device cuda against the same command with --device cpu, as a user runs them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/coco/results.h"
#include "shared/onnx/onnx_session.h"
#include "tests/convert/random_checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/gpu/gpu.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

std::vector<double> losses_of(const std::string& run) {
  std::vector<double> losses;
  for (const JsonFile& line : metric_lines(run, "step_ms")) {
    losses.push_back(line.root().at("loss").as_double());
  }
  return losses;
}

class CommandsOnGpu : public testing::Test {
 protected:
  void SetUp() override { RETINA_GPU_OR_SKIP(); }

  // Trains in IEEE f32 and returns the losses of its steps.
  static std::vector<double> train(const Job& job, const std::string& run, int steps,
                                   const std::string& device,
                                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = job.train_command(job / run, steps, more);
    set_value(command, "--device", device);
    if (std::find(more.begin(), more.end(), "--precision") == more.end()) {
      command.insert(command.end(), {"--precision", "tf32=off"});
    }
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr(device == "cuda" ? "cuda:0" : "cpu"));
    return losses_of(job / run);
  }
};

TEST_F(CommandsOnGpu, TrainingGivesTheCpusLossCurveInEveryPrecision) {
  const Job job;
  struct Case {
    std::vector<std::string> options;
    double tolerance;
  };
  const std::vector<double> cpu = train(job, "cpu", 3, "cpu");
  for (const Case& one :
       {Case{{}, 1e-3}, Case{{"--precision", "tf32=on"}, 0.01},
        Case{{"--precision", "bf16,tf32=off"}, 0.05}, Case{{"--precision", "fp16,tf32=off"}, 0.05},
        Case{{"--optimizer", "momentum=0"}, 1e-3}}) {
    const std::string name = one.options.empty() ? "plain" : one.options[1];
    SCOPED_TRACE(name);
    const std::vector<double> gpu = train(job, name, 3, "cuda", one.options);
    const std::vector<double> expected =
        name == "momentum=0" ? train(job, "cpu-" + name, 3, "cpu", one.options) : cpu;
    ASSERT_EQ(gpu.size(), 3U);
    ASSERT_EQ(expected.size(), 3U);
    for (std::size_t i = 0; i < gpu.size(); ++i) {
      EXPECT_NEAR(gpu[i], expected[i], one.tolerance * expected[i]) << i;
    }
  }
}

TEST_F(CommandsOnGpu, ARunContinuesOnTheOtherDevice) {
  const Job job;
  const std::vector<double> whole = train(job, "whole", 6, "cpu");
  train(job, "mixed", 2, "cuda");
  train(job, "mixed", 4, "cpu");
  const std::vector<double> mixed = train(job, "mixed", 6, "cuda");
  ASSERT_EQ(mixed.size(), 6U);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(mixed[i], whole[i], 1e-3 * whole[i]) << i;
  }
}

// Two ranks, which NCCL joins.
class TwoGpus : public CommandsOnGpu {
 protected:
  void SetUp() override {
    CommandsOnGpu::SetUp();
    if (IsSkipped()) return;
    if (torch::cuda::device_count() < 2) GTEST_SKIP() << "fewer than two GPUs";
  }

  static std::vector<double> train_on_two(const Job& job, const std::string& run,
                                          const std::vector<std::string>& more) {
    std::vector<std::string> command = job.train_command(job / run, 5, more);
    set_value(command, "--device", "cuda");
    command.insert(command.end(), {"--precision", "tf32=off"});
    const ProcessResult result = run_process(under_mpirun(2, command));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("rank 1 cuda:1"));
    return losses_of(job / run);
  }
};

TEST_F(TwoGpus, GiveTheLossesOfOneWithAndWithoutOverlap) {
  const Job job;
  const std::vector<double> one = train(job, "one", 5, "cuda");
  const std::vector<double> two = train_on_two(job, "two", {});
  write_file_atomically(job / "after.json", R"({"overlap-reduce": "off"})");
  const std::vector<double> after = train_on_two(job, "after", {"--config", job / "after.json"});
  const std::vector<double> bf16 = train_on_two(job, "bf16", {"--wire", "bf16"});
  ASSERT_EQ(one.size(), 5U);
  ASSERT_EQ(two.size(), 5U);
  ASSERT_EQ(after.size(), 5U);
  ASSERT_EQ(bf16.size(), 5U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(two[i], one[i], 1e-3 * one[i]) << i;
    EXPECT_NEAR(after[i], one[i], 1e-3 * one[i]) << i;
    EXPECT_NEAR(bf16[i], one[i], 0.05 * one[i]) << i;
  }
}

TEST_F(TwoGpus, ShareStatisticsOfBatchNorm) {
  const Job job;
  const std::vector<double> one = train(job, "one", 5, "cuda", {"--norm", "batch"});
  const std::vector<double> two = train_on_two(job, "two", {"--norm", "batch", "--sync-bn", "on"});
  ASSERT_EQ(two.size(), 5U);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-3 * one[i]) << i;
}

// A model with spread scores for the classes of the tiny world, its shards, and what retina-eval
// and retina-convert make of them.
class DetectingOnGpu : public CommandsOnGpu {
 protected:
  void SetUp() override {
    CommandsOnGpu::SetUp();
    if (IsSkipped()) return;
    write_tiny_shards(folder_ / "shards", 8);
    ModelConfig config = small_config();
    config.class_count = 3;
    Checkpoint checkpoint = random_checkpoint(config, 1, 1);
    checkpoint.categories = {{3, "cat", ""}, {5, "dog", ""}, {9, "cow", ""}};
    save_checkpoint(folder_ / "c.pt", checkpoint);
  }

  std::vector<Detection> detect(const std::string& model, const std::string& device) {
    const std::string output = folder_ / cat("detections-", ++detect_count_);
    const ProcessResult result =
        run_process({"retina-eval", "--model", folder_ / model, "--data", folder_ / "shards",
                     "--output", output, "--device", device});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_results(output + "/detections.json");
  }

  // All but one in a hundred have a partner: a last bit may decide about a pair that overlaps.
  static void expect_same(const std::vector<Detection>& gpu, const std::vector<Detection>& cpu) {
    ASSERT_GT(cpu.size(), 100U);
    EXPECT_NEAR(static_cast<double>(gpu.size()), static_cast<double>(cpu.size()),
                0.01 * static_cast<double>(cpu.size()));
    std::vector<bool> taken(cpu.size());
    std::size_t lone = 0;
    for (const Detection& one : gpu) {
      std::size_t i = 0;
      while (i < cpu.size() && (taken[i] || !close(one, cpu[i]))) ++i;
      if (i == cpu.size()) {
        ++lone;
      } else {
        taken[i] = true;
      }
    }
    EXPECT_LE(lone, gpu.size() / 100);
  }
  static bool close(const Detection& a, const Detection& b) {
    if (a.image_id != b.image_id || a.category_id != b.category_id) return false;
    for (std::size_t i = 0; i < 4; ++i) {
      if (std::abs(a.bbox[i] - b.bbox[i]) > 0.01) return false;
    }
    return std::abs(a.score - b.score) <= 1e-4;
  }

  TestFolder folder_;
  int detect_count_ = 0;
};

TEST_F(DetectingOnGpu, ACheckpointFindsWhatItFindsOnTheCpu) {
  expect_same(detect("c.pt", "cuda"), detect("c.pt", "cpu"));
}

// The verification compares the checkpoint on the GPU with its model, which runs on the CPU.
TEST_F(DetectingOnGpu, AConvertedModelFindsWhatTheCheckpointFinds) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const ProcessResult converted = run_process({"retina-convert", "--checkpoint", folder_ / "c.pt",
                                               "--output", folder_ / "m.onnx", "--device", "cuda"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_THAT(converted.out, HasSubstr("detections equal"));
  expect_same(detect("c.pt", "cuda"), detect("m.onnx", "cpu"));
}

TEST_F(DetectingOnGpu, AConvertedClassifierGivesWhatItsNetworkGives) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  for (const char* backbone : {"resnet18", "cifar-cnn"}) {
    save_checkpoint(folder_ / "k.pt", random_checkpoint(small_classifier_config(backbone), 1));
    const ProcessResult converted =
        run_process({"retina-convert", "--checkpoint", folder_ / "k.pt", "--output",
                     folder_ / "n.onnx", "--overwrite", "--device", "cuda"});
    EXPECT_EQ(converted.exit_code, 0) << backbone << ": " << converted.err;
    EXPECT_THAT(converted.out, HasSubstr("verification: 4 images, the same best class on "));
  }
}

}  // namespace
}  // namespace retina
