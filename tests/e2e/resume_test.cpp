// A killed run ends with the weights of one that nobody touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/run_folder.h"
#include "tests/e2e/job.h"
#include "tests/e2e/weights.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

// fp16 has a loss scale, too; CPUs take long for its convolutions.
class ResumeIn : public testing::TestWithParam<std::string> {};

TEST_P(ResumeIn, AfterKillAtARandomStepEndsWithTheSameBits) {
  constexpr int kSteps = 12;
  const std::vector<std::string> often = {"--checkpoint-every", "3steps",  "--optimizer", "adamw",
                                          "--precision",        GetParam()};
  const Job job(GetParam() == "fp16" ? Task::kClassification : Task::kDetection);
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
  expect_same_bits(left.model, right.model);
  expect_same_bits(left.optimizer, right.optimizer);
  EXPECT_EQ(steps_logged(killed), kSteps);
}

INSTANTIATE_TEST_SUITE_P(, ResumeIn, testing::Values("fp32", "fp16"),
                         [](const auto& instance) { return instance.param; });

// An epoch is longer than the run, so that the run's length changes within it.
TEST(Resume, KeepsWhatATimedRunHasDecidedAndEndsItInANewTime) {
  constexpr int kMoreSteps = 20;
  const Job job;
  const std::string run = job / "run";
  std::vector<std::string> command =
      joined({"retina-train", "--train", job.train_shards(), "--output", run},
             words("--size tiny --min-side 64 --max-side 96 --for 10h --steps-per-epoch 100000 "
                   "--compute-threads 1 --threads 1 --device cpu"));
  ChildProcess child(command);
  ASSERT_TRUE(child.run_until([&] { return steps_logged(run) >= 2; }, 120));
  child.signal(SIGTERM);
  const ProcessResult stopped = child.wait();
  ASSERT_EQ(stopped.exit_code, 75) << stopped.err;
  const std::int64_t before = steps_logged(run);
  EXPECT_EQ(metric_lines(run, "step_ms").at(0).root().at("images").as_int(), 4);
  set_value(command, "--for", "1s");
  const ProcessResult finished = run_process(command);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_GT(steps_logged(run), before);
  EXPECT_LT(steps_logged(run), before + kMoreSteps);
  EXPECT_EQ(metric_lines(run, "step_ms").back().root().at("images").as_int(), 4);
  // The run has steps of 4 images, which five ranks cannot share.
  const ProcessResult shared = run_process(under_mpirun(5, command));
  EXPECT_EQ(shared.exit_code, 78);
  EXPECT_THAT(shared.err, HasSubstr("too few for 5 ranks"));
  // Steps that are given count, whatever the time was.
  const std::int64_t wanted = steps_logged(run) + 2;
  const auto time = std::find(command.begin(), command.end(), "--for");
  *time = "--steps";
  *(time + 1) = cat(wanted);
  const ProcessResult longer = run_process(command);
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(steps_logged(run), wanted);
  *(time + 1) = cat(wanted + 1);
  const ProcessResult longest = run_process(command);
  EXPECT_EQ(longest.exit_code, 0) << longest.err;
  EXPECT_EQ(metric_lines(run, "step_ms").back().root().at("images").as_int(), 4);
}

// A run forgets neither its time nor the images of a step that went with it.
TEST(Resume, OfATimedRunNeedsNoTime) {
  const Job job;
  const std::string run = job / "run";
  std::vector<std::string> command =
      joined({"retina-train", "--train", job.train_shards(), "--output", run},
             words("--size tiny --min-side 64 --max-side 96 --compute-threads 1 --threads 1 "
                   "--device cpu --for 10h"));
  for (const std::int64_t steps : {2, 4, 6}) {  // the second and third time without --for
    ChildProcess child(command);
    ASSERT_TRUE(child.run_until([&] { return steps_logged(run) >= steps; }, 120));
    child.signal(SIGTERM);
    const ProcessResult stopped = child.wait();
    ASSERT_EQ(stopped.exit_code, 75) << stopped.err;
    EXPECT_THAT(read_file(run + "/config.json"), HasSubstr("\"10h\""));
    if (command.back() == "10h") command.resize(command.size() - 2);
  }
}

// 26 epochs are what a run of no length has.
TEST(Resume, EndsARunOfGivenEpochsInAGivenTime) {
  const Job job;
  const std::string run = job / "run";
  std::vector<std::string> command =
      joined({"retina-train", "--train", job.train_shards(), "--output", run},
             words("--size tiny --min-side 64 --max-side 96 --epochs 1000 --steps-per-epoch 1 "
                   "--compute-threads 1 --threads 1 --device cpu"));
  ChildProcess child(command);
  ASSERT_TRUE(child.run_until([&] { return steps_logged(run) >= 27; }, 120));
  child.signal(SIGTERM);
  const ProcessResult stopped = child.wait();
  ASSERT_EQ(stopped.exit_code, 75) << stopped.err;
  const std::int64_t before = steps_logged(run);
  const auto epochs = std::find(command.begin(), command.end(), "--epochs");
  *epochs = "--for";
  *(epochs + 1) = "2s";
  const ProcessResult finished = run_process(command);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_GT(steps_logged(run), before);
  EXPECT_LT(steps_logged(run), 1000);
}

// Every step ends an epoch here, so the stop comes between an epoch's last step and its end.
TEST(Resume, MakesUpForTheEndOfAnEpochAndSavesIt) {
  const Job job(Task::kClassification);
  const std::string run = job / "run";
  const std::vector<std::string> epochs = {"--steps-per-epoch", "1", "--validation",
                                           job.val_shards()};
  ChildProcess child(job.train_command(run, 100000, epochs));
  ASSERT_TRUE(child.run_until([&] { return steps_logged(run) >= 2; }, 120));
  child.signal(SIGTERM);
  const ProcessResult stopped = child.wait();
  ASSERT_EQ(stopped.exit_code, 75) << stopped.err;
  const auto last = static_cast<int>(steps_logged(run));
  const auto again = job.train_command(run, last, epochs);
  ASSERT_EQ(run_process(again).exit_code, 0);
  EXPECT_TRUE(path_exists(run + "/report.html"));
  const std::string metrics = read_file(run + "/metrics.jsonl");
  EXPECT_EQ(occurrences("\"validation\"", metrics), static_cast<std::size_t>(last));
  // As if the run had been killed before it told of its last checkpoint.
  const std::string index = run + "/checkpoints.json", whole = read_file(index);
  std::vector<CheckpointEntry> told = list_checkpoints(run);
  told.pop_back();
  write_index(run, told);
  ASSERT_NE(read_file(index), whole);
  const ProcessResult third = run_process(again);
  EXPECT_EQ(third.exit_code, 0);
  EXPECT_EQ(read_file(index), whole);
  EXPECT_NE(third.out.find("already finished"), std::string::npos) << third.out << third.err;
  EXPECT_EQ(read_file(run + "/metrics.jsonl"), metrics);
}

TEST(Resume, RefusesToBeginAnewWhereNoCheckpointIsWhole) {
  const Job job(Task::kClassification);
  const std::string run = job / "run";
  ASSERT_EQ(run_process(job.train_command(run, 2)).exit_code, 0);
  // The step that ends the run and an epoch leaves one checkpoint.
  const std::vector<CheckpointEntry> checkpoints = list_checkpoints(run);
  ASSERT_EQ(checkpoints.size(), 1U);
  EXPECT_EQ(checkpoints[0].file, "checkpoint-01-00000002.pt");
  write_file_atomically(run + "/" + checkpoints[0].file, "torn");
  const std::string metrics = read_file(run + "/metrics.jsonl");
  const ProcessResult refused = run_process(job.train_command(run, 4));
  EXPECT_EQ(refused.exit_code, 65) << refused.err;
  EXPECT_NE(refused.err.find("no checkpoint of this run is intact"), std::string::npos);
  EXPECT_EQ(read_file(run + "/metrics.jsonl"), metrics);
}

// Only what was read and found damaged is passed over.
TEST(Resume, DoesNotSkipACheckpointThatCannotBeReadNow) {
  namespace fs = std::filesystem;
  const Job job(Task::kClassification);
  const std::string run = job / "run";
  ASSERT_EQ(run_process(job.train_command(run, 3, {"--checkpoint-every", "1steps"})).exit_code, 0);
  const std::string newest = last_checkpoint(run), metrics = read_file(run + "/metrics.jsonl");
  fs::rename(newest, job / "away");
  fs::create_symlink(job / "not-mounted/checkpoint.pt", newest);
  const auto command = job.train_command(run, 4, {"--checkpoint-every", "1steps"});
  const ProcessResult refused = run_process(command);
  EXPECT_EQ(refused.exit_code, 66) << refused.err;
  EXPECT_EQ(read_file(run + "/metrics.jsonl"), metrics);
  fs::remove(newest);
  fs::rename(job / "away", newest);
  const ProcessResult continued = run_process(command);
  EXPECT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_NE(continued.err.find("continuing from " + newest), std::string::npos) << continued.err;
}

TEST(Resume, SkipsADamagedNewestCheckpoint) {
  const Job job(Task::kClassification);
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
