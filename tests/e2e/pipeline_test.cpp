// The whole job as a user runs it: pack -> train on two ranks -> stop -> resume -> evaluate ->
// convert -> evaluate the converted model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr int kPipelineSteps = 8;

std::vector<double> stats_of(const std::string& evaluation) {
  const JsonFile file = JsonFile::read(evaluation + "/metrics.json");
  const JsonView stats = file.root().at("stats");
  std::vector<double> values;
  for (std::size_t i = 0; i < stats.size(); ++i) values.push_back(stats.at(i).as_double());
  return values;
}

TEST(Pipeline, PacksTrainsStopsResumesEvaluatesAndConverts) {
  const Job job;
  const std::string run = job / "run";
  const auto train =
      under_mpirun(2, job.train_command(run, kPipelineSteps, {"--validation", job.val_shards()}));

  {  // A node is taken away: the job saves and asks to be run again.
    ChildProcess interrupted(train);
    ASSERT_TRUE(interrupted.run_until([&] { return steps_logged(run) >= 2; }, 120))
        << interrupted.wait().err;
    interrupted.signal(SIGUSR1);
    const ProcessResult result = interrupted.wait();
    ASSERT_EQ(result.exit_code, 75) << result.err;
    EXPECT_LT(steps_logged(run), kPipelineSteps);
    EXPECT_NE(last_checkpoint(run), "");
  }
  const ProcessResult trained = run_process(train);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(steps_logged(run), kPipelineSteps);
  EXPECT_THAT(read_file(run + "/metrics.jsonl"), HasSubstr("\"validation\""));
  EXPECT_TRUE(path_exists(run + "/report.html"));

  const ProcessResult again = run_process(train);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(steps_logged(run), kPipelineSteps);

  const std::string checkpoint = last_checkpoint(run), model = job / "model.onnx";
  const auto evaluate = [&](const std::string& what, const std::string& output) {
    return run_process({"retina-eval", "--model", what, "--data", job.val_shards(), "--output",
                        output, "--device", "cpu", "--score-threshold", "0.001"});
  };
  const ProcessResult evaluated = evaluate(checkpoint, job / "evaluation");
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("Average Precision"));
  EXPECT_THAT(read_file(job / "evaluation/detections.json"), HasSubstr("\"category_id\""));

  const ProcessResult converted = run_process({"retina-convert", "--checkpoint", checkpoint,
                                               "--output", model, "--score-threshold", "0.001"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  const ProcessResult evaluated_again = evaluate(model, job / "evaluation-converted");
  ASSERT_EQ(evaluated_again.exit_code, 0) << evaluated_again.err;

  const auto stats = stats_of(job / "evaluation"), other = stats_of(job / "evaluation-converted");
  ASSERT_EQ(stats.size(), 12U);
  ASSERT_EQ(other.size(), 12U);
  for (std::size_t i = 0; i < stats.size(); ++i) EXPECT_NEAR(stats[i], other[i], 1e-3) << i;
}

// `command` where no file may grow past `kib` KiB.
ProcessResult run_limited(int kib, const std::vector<std::string>& command) {
  std::string line = cat("ulimit -f ", kib, "; exec " RETINA_BIN_DIR "/", command[0]);
  for (std::size_t i = 1; i < command.size(); ++i) line += cat(" '", command[i], "'");
  return run_process({"/bin/bash", "-c", line});
}

TEST(Pipeline, AFileSizeLimitIs74AndTheNextRunContinues) {
  const Job job;
  const std::string run = job / "run", model = job / "model.onnx";
  const auto expect_74_then_0 = [](int kib, const std::vector<std::string>& command) {
    const ProcessResult limited = run_limited(kib, command), again = run_process(command);
    EXPECT_EQ(limited.exit_code, 74) << limited.err;
    EXPECT_THAT(limited.err, HasSubstr("File too large"));
    ASSERT_EQ(again.exit_code, 0) << again.err;
  };
  expect_74_then_0(8192, job.train_command(run, 1));
  const std::string checkpoint = last_checkpoint(run);
  expect_74_then_0(8192, {"retina-convert", "--checkpoint", checkpoint, "--output", model});
  expect_74_then_0(8, {"retina-eval", "--model", checkpoint, "--data", job.val_shards(), "--output",
                       job / "evaluation", "--device", "cpu", "--score-threshold", "0.001"});
}

}  // namespace
}  // namespace retina
