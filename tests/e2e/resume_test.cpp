// A killed run ends with the weights of one that nobody touched.
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>

#include <csignal>
#include <random>

#include "shared/base/file.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

// Equal names, shapes and bits of everything that a run carries on.
void expect_equal(const std::vector<NamedTensor>& left, const std::vector<NamedTensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].name, right[i].name);
    EXPECT_TRUE(at::equal(left[i].tensor, right[i].tensor)) << left[i].name;
  }
}

TEST(Resume, AfterKillAtARandomStepEndsWithTheSameBits) {
  constexpr int kSteps = 12;
  const std::vector<std::string> often = {"--checkpoint-every", "3steps", "--optimizer", "adamw"};
  const Job job;
  const std::string calm = job / "calm", killed = job / "killed";
  const ProcessResult whole = run_process(job.train_command(calm, kSteps, often));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;

  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 generator(seed);
  const auto command = job.train_command(killed, kSteps, often);
  for (int kills = 0; kills < 2; ++kills) {
    const int step = std::uniform_int_distribution(1, kSteps - 1)(generator);
    SCOPED_TRACE("killed at step " + std::to_string(step) + ", seed " + std::to_string(seed));
    ChildProcess child(command);
    child.run_until([&] { return steps_logged(killed) >= step; }, 120);
    child.signal_group(SIGKILL);
    child.wait();
  }
  const ProcessResult finished = run_process(command);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;

  const Checkpoint left = load_checkpoint(last_checkpoint(calm));
  const Checkpoint right = load_checkpoint(last_checkpoint(killed));
  expect_equal(left.model, right.model);
  expect_equal(left.optimizer, right.optimizer);
  EXPECT_EQ(steps_logged(killed), kSteps);
}

TEST(Resume, SkipsADamagedNewestCheckpoint) {
  const Job job;
  const std::string run = job / "run";
  const std::vector<std::string> often = {"--checkpoint-every", "2steps"};
  ASSERT_EQ(run_process(job.train_command(run, 4, often)).exit_code, 0);
  const std::string newest = last_checkpoint(run);
  std::string bytes = read_file(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(newest, bytes);

  const ProcessResult continued = run_process(job.train_command(run, 6, often));
  ASSERT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_NE(continued.err.find("skipping a damaged checkpoint"), std::string::npos);
  EXPECT_EQ(steps_logged(run), 6);
}

}  // namespace
}  // namespace retina
