// What watches over a run: averages, plateaus, early ends, expected ranks; and the speed test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>

#include <algorithm>
#include <filesystem>

#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTinyModel = {"--backbone", "resnet18", "--min-side", "64",
                                             "--max-side", "96",       "--device",   "cpu"};

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(GuardRails, ARunInTwoPartsKeepsAverageAndPlateauState) {
  const Job job;
  const std::vector<std::string> options = {"--ema",
                                            "0.9",
                                            "--lr-schedule",
                                            "plateau",
                                            "--plateau-patience",
                                            "1",
                                            "--steps-per-epoch",
                                            "2",
                                            "--validation",
                                            job.val_shards(),
                                            "--optimizer",
                                            "adam"};
  const auto train = [&](const std::string& run, int steps) {
    const ProcessResult result = run_process(job.train_command(run, steps, options));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  train(job / "whole", 11);
  train(job / "parts", 5);
  train(job / "parts", 11);
  const Checkpoint whole = load_checkpoint(last_checkpoint(job / "whole"));
  const Checkpoint parts = load_checkpoint(last_checkpoint(job / "parts"));
  ASSERT_EQ(whole.model.size(), parts.model.size());
  ASSERT_EQ(whole.optimizer.size(), parts.optimizer.size());
  for (std::size_t i = 0; i < whole.model.size(); ++i) {
    EXPECT_TRUE(at::equal(whole.model[i].tensor, parts.model[i].tensor)) << whole.model[i].name;
  }
  for (std::size_t i = 0; i < whole.optimizer.size(); ++i) {
    EXPECT_TRUE(at::equal(whole.optimizer[i].tensor, parts.optimizer[i].tensor))
        << whole.optimizer[i].name;
  }
  EXPECT_EQ(whole.trainer_json, parts.trainer_json);
  // Epochs of two steps: the sixth is in progress.
  EXPECT_THAT(last_checkpoint(job / "whole"), HasSubstr("checkpoint-06-00000011.pt"));

  // What is used is the average, what training goes on from lies beside it.
  const auto raw = std::find_if(
      whole.optimizer.begin(), whole.optimizer.end(),
      [&](const auto& item) { return item.name == "weight." + whole.model.front().name; });
  ASSERT_NE(raw, whole.optimizer.end());
  EXPECT_FALSE(at::equal(raw->tensor, whole.model.front().tensor));
}

TEST(GuardRails, EndsEarlyWhenTheApStaysAndIsThenFinished) {
  const Job job;
  auto command = job.train_command(job / "run", 1, {"--validation", job.val_shards()});
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--steps")
      command.erase(command.begin() + static_cast<std::ptrdiff_t>(i),
                    command.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    if (command[i] == "--lr") command[i + 1] = "1e-9";
  }
  command = joined(command, {"--epochs", "40", "--early-stop", "2"});
  const ProcessResult result = run_process(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("early stop: no better AP for 2 validations"));
  EXPECT_EQ(steps_logged(job / "run"), 6) << "three epochs of two steps";
  const ProcessResult again = run_process(command);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("already finished"));
}

TEST(GuardRails, WarnOfAFrozenNormFromScratch) {
  const Job job;
  const ProcessResult frozen =
      run_process(job.train_command(job / "frozen", 1, {"--norm", "frozen"}));
  EXPECT_EQ(frozen.exit_code, 0) << frozen.err;
  EXPECT_THAT(frozen.err, HasSubstr("--norm frozen without --init"));
  const ProcessResult batch = run_process(job.train_command(job / "batch", 1));
  EXPECT_THAT(batch.err, Not(HasSubstr("--norm frozen")));
}

TEST(GuardRails, RefuseAnotherNumberOfRanksThanExpected) {
  const Job job;
  const ProcessResult result =
      run_process(job.train_command(job / "run", 1, {"--expect-ranks", "2"}));
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_THAT(result.err, HasSubstr("started 1 rank"));
  EXPECT_FALSE(std::filesystem::exists(job / "run"));
}

TEST(Recipes, EachTrainsASmallModel) {
  const Job job;
  for (const std::string recipe : {"torchvision-v1", "torchvision-v2", "keras-retinanet"}) {
    const ProcessResult result = run_process(
        joined({"retina-train", "--recipe", recipe, "--train", job.train_shards(), "--output",
                job / recipe, "--steps", "2", "--images-per-step", "2", "--min-sides", "64,80"},
               kTinyModel));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("the recipe's learning rate is for"));
    EXPECT_EQ(steps_logged(job / recipe), 2);
  }
}

TEST(Synthetic, MeasuresSpeedWithoutDataAndWritesNothing) {
  const TestFolder folder;
  const auto command =
      joined({"retina-train", "--synthetic", "12", "--images-per-step", "2"}, kTinyModel);
  const auto in_folder = [&](std::vector<std::string> arguments) {
    std::string line = "cd '" + folder.path() + "' && exec";
    for (const auto& argument : arguments) line += " '" + argument + "'";
    return run_process({"/bin/bash", "-c", line});
  };
  auto alone = command;
  alone[0] = RETINA_BIN_DIR "/retina-train";
  const ProcessResult one = in_folder(alone);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("images/s in total"));
  EXPECT_THAT(one.out, HasSubstr("1 rank\n"));
  const ProcessResult two = in_folder(under_mpirun(2, command));
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, HasSubstr("2 ranks\n"));
  EXPECT_THAT(two.out, HasSubstr("spread"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// The shards are mapped: what a read would return as an error is a SIGBUS there.
TEST(GuardRails, AShardThatIsCutUnderARunIsOneLine) {
  for (const int ranks : {1, 2}) {
    const Job job;
    const auto command = job.train_command(job / "run", 100000);
    ChildProcess child(ranks == 1 ? command : under_mpirun(ranks, command));
    ASSERT_TRUE(child.run_until([&] { return steps_logged(job / "run") >= 1; }, 120));
    std::filesystem::resize_file(job.train_shards() + "/shard-00000-of-00001.lmdb", 0);
    const ProcessResult result = child.wait();
    if (ranks == 1) {
      EXPECT_EQ(result.exit_code, 74) << result.err;
    } else {
      EXPECT_THAT(result.exit_code, AnyOf(74, 76)) << "of the rank that ends first\n" << result.err;
    }
    EXPECT_THAT(result.err, HasSubstr("error: reading a mapped file failed (the mount has gone"));
    EXPECT_THAT(result.err, Not(HasSubstr("Signal: ")));  // Open MPI's backtrace
  }
}

}  // namespace
}  // namespace retina
