#include "tests/mounts/train_fixture.h"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <filesystem>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"

namespace retina {
namespace {

std::vector<std::string> training(const Job& job, const std::string& run, int steps) {
  return job.train_command(run, steps,
                           {"--checkpoint-every", "1steps", "--keep", "2", "--optimizer", "sgd"});
}

void expect_equal(const NamedTensors& left, const NamedTensors& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].name, right[i].name);
    ASSERT_TRUE(at::equal(left[i].tensor, right[i].tensor)) << left[i].name;
  }
}

}  // namespace

Job* TrainFixture::job_ = nullptr;

void TrainFixture::set_up(Task task) {
  job_ = new Job(task);
  const ProcessResult calm = run_process(training(*job_, *job_ / "calm", kSteps));
  ASSERT_EQ(calm.exit_code, 0) << calm.err;
}

void TrainFixture::TearDownTestSuite() {
  delete job_;
  job_ = nullptr;
}

TrainFixture::TrainFixture() {
  make_folder(folder_ / "out");
}

std::vector<std::string> TrainFixture::command(const std::vector<std::string>& more) const {
  auto arguments = training(*job_, run(), kSteps);
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

ProcessResult TrainFixture::train(const std::string& rules, int exit_code,
                                  const std::vector<std::string>& more) const {
  const ProcessResult result = run_process(faulty(rules, command(more)));
  EXPECT_EQ(result.exit_code, exit_code) << rules << "\n" << result.err;
  return result;
}

void TrainFixture::expect_that_training_again_ends_well(
    const std::vector<std::string>& more) const {
  const ProcessResult again = run_process(command(more));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  expect_the_calm_result();
}

void TrainFixture::expect_the_calm_result() const {
  const std::string there = last_checkpoint(run());
  ASSERT_NE(there, "");
  const Checkpoint wanted = load_checkpoint(last_checkpoint(*job_ / "calm"));
  const Checkpoint got = load_checkpoint(there);
  expect_equal(wanted.model, got.model);
  expect_equal(wanted.optimizer, got.optimizer);
  EXPECT_EQ(steps_logged(run()), kSteps);
  EXPECT_TRUE(path_exists(run() + "/report.html"));
  for (const auto& file : std::filesystem::directory_iterator(run())) {
    const std::string ending = file.path().extension().string();
    EXPECT_TRUE(ending != ".tmp" && ending != ".old") << file.path();
  }
}

std::int64_t TrainFixture::newest_step(const std::string& run) {
  std::int64_t newest = 0;
  for (const auto& file : std::filesystem::directory_iterator(run)) {
    if (file.path().extension() != ".pt") continue;
    const CheckpointHeader header = read_checkpoint_header(file.path().string());
    const JsonFile trainer = JsonFile::parse(header.trainer_json, file.path().string());
    newest = std::max(newest, trainer.root().at("step").as_int());
  }
  return newest;
}

}  // namespace retina
