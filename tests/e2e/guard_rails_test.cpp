// What watches over a run: averages, plateaus, early ends, expected ranks; and the speed test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/instances.h"
#include "tests/e2e/job.h"
#include "tests/e2e/weights.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTinyModel =
    words("--backbone resnet18 --min-side 64 --max-side 96 --device cpu");

TEST(GuardRails, ARunInTwoPartsKeepsAverageAndPlateauState) {
  const Job job(Task::kClassification);
  const std::vector<std::string> options =
      joined({"--validation", job.val_shards()},
             words("--ema 0.9 --lr-schedule plateau,patience=1 --steps-per-epoch 2 "
                   "--optimizer adam"));
  const auto train = [&](const std::string& run, int steps) {
    const ProcessResult result = run_process(job.train_command(run, steps, options));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  train(job / "whole", 11);
  train(job / "parts", 5);
  train(job / "parts", 11);
  const Checkpoint whole = load_checkpoint(last_checkpoint(job / "whole"));
  const Checkpoint parts = load_checkpoint(last_checkpoint(job / "parts"));
  expect_same_bits(whole.model, parts.model);
  expect_same_bits(whole.optimizer, parts.optimizer);
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
  auto command =
      job.train_command(job / "run", 80, {"--validation", job.val_shards(), "--early-stop", "2"});
  set_value(command, "--lr", "1e-9");
  const ProcessResult result = run_process(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("early stop: AP has not improved in 2 validations"));
  EXPECT_EQ(steps_logged(job / "run"), 6) << "three epochs of two steps";
  EXPECT_THAT(result.out, HasSubstr("; next: ")) << "a verdict, as any end has";
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
  const Job job(Task::kClassification);
  const ProcessResult result =
      run_process(job.train_command(job / "run", 1, {"--expect-ranks", "2"}));
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_THAT(result.err, HasSubstr("started 1 rank"));
  EXPECT_FALSE(std::filesystem::exists(job / "run"));
}

TEST(GuardRails, KeepOneValidationSetInARun) {
  const Job job;
  const auto train = [&](int steps, const std::vector<std::string>& validation) {
    return run_process(job.train_command(job / "run", steps, validation));
  };
  const std::vector<std::string> part = {"--validation", job.val_shards(), "--validation-images",
                                         "1"};
  const ProcessResult first = train(2, {"--validation", job.val_shards()});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  for (const char* set : {"--train", "--validation"}) {
    EXPECT_THAT(first.err, testing::ContainsRegex(
                               cat(set, " [^ ]+: [0-9]+ images of the set are quarantined")));
  }
  for (const auto& other : {std::vector<std::string>{"--validation", job.train_shards()}, part}) {
    const ProcessResult refused = train(4, other);
    EXPECT_EQ(refused.exit_code, 78) << refused.err;
    EXPECT_THAT(refused.err,
                HasSubstr("the contents of --validation, or --validation-images (was "));
  }
  std::filesystem::rename(job.val_shards(), job / "moved");
  const ProcessResult moved = train(4, {"--validation", job / "moved"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  ASSERT_EQ(train(6, {}).exit_code, 0);
  // The figures of a checkpoint are of its set in a new folder, too, and after steps without one.
  const ProcessResult resumed = run_process(job.train_command(
      job / "next", 8,
      {"--validation", job.train_shards(), "--resume", last_checkpoint(job / "run")}));
  EXPECT_EQ(resumed.exit_code, 78) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("the contents of --validation, or --validation-images (was "));
}

// It has a width until it is mirrored: then no anchor would meet it, and l1 would be infinite.
TEST(GuardRails, TrainWithoutABoxThatIsTooThin) {
  const Job job;
  Instances instances = read_instances(job / "scenes/annotations/instances_train2017.json");
  Annotation& thin = instances.annotations.front();
  thin.bbox = {1e-5, 10, 1e-5, 40};
  write_file_atomically(job / "thin.json", instances_to_json(instances));
  const ProcessResult packed =
      run_process({"coco-pack", "--annotations", job / "thin.json", "--images",
                   job / "scenes/images/train2017", "--output", job / "thin"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  const ProcessResult result =
      run_process(small_train_command(job / "thin", job / "run", 6, {"--augment", "flip=1"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("boxes without an area, ignored: 1)"));
}

TEST(GuardRails, APreviewTrainsNothingAndARunKeepsItsAugmentation) {
  const Job job;
  const ProcessResult preview =
      run_process(job.train_command(job / "run", 2, {"--augment", "strong", "--preview", "5"}));
  ASSERT_EQ(preview.exit_code, 0) << preview.err;
  EXPECT_THAT(preview.out, HasSubstr("preview.html"));
  EXPECT_THAT(read_file(job / "run/preview.html"), HasSubstr("--augment strong"));
  EXPECT_FALSE(path_exists(job / "run/config.json")) << "a run was begun";
  // Its own page may be replaced, nobody else's.
  const auto again = job.train_command(job / "run", 2, {"--preview", "1"});
  EXPECT_EQ(run_process(again).exit_code, 0);
  write_file_atomically(job / "run/preview.html", "<p>of a film");
  EXPECT_EQ(run_process(again).exit_code, 73);
  EXPECT_EQ(read_file(job / "run/preview.html"), "<p>of a film");
  const ProcessResult begun =
      run_process(job.train_command(job / "run", 2, {"--augment", "strong"}));
  ASSERT_EQ(begun.exit_code, 0) << begun.err;
  const ProcessResult other =
      run_process(job.train_command(job / "run", 4, {"--augment", "light"}));
  EXPECT_EQ(other.exit_code, 78) << other.err;
  EXPECT_THAT(other.err, HasSubstr("augment"));
}

TEST(GuardRails, AFolderForTensorBoardThatCannotBeMadeEndsTheJobAtItsStart) {
  const Job job(Task::kClassification);
  write_file_atomically(job / "file", "");
  const ProcessResult result =
      run_process(job.train_command(job / "run", 1, {"--tensorboard", job / "file/events"}));
  EXPECT_EQ(result.exit_code, 73) << result.err;
  EXPECT_THAT(result.err, HasSubstr("file/events: cannot create the folder"));
  EXPECT_THAT(result.err, HasSubstr("choose another --tensorboard"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(steps_logged(job / "run"), 0);
}

TEST(GuardRails, ARunWithoutStandardStreamsHasNoLogInItsFiles) {
  const Job job(Task::kClassification);
  const ProcessResult result = run_without_streams(
      job.train_command(job / "run", 1, {"--tensorboard", job / "events", "--log-level", "debug"}));
  EXPECT_EQ(result.exit_code, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(job.folder().path())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read_file(entry.path()), Not(HasSubstr("retina-train: training on")))
        << entry.path();
  }
  std::istringstream lines(read_file(job / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) EXPECT_NO_THROW(JsonFile::parse(line, line));
}

TEST(Recipes, EachTrainsASmallModel) {
  const Job job;
  for (const std::string recipe :
       {"torchvision-v1", "torchvision-v2", "keras-retinanet", "atss", "gfl"}) {
    auto command =
        joined({"retina-train", "--recipe", recipe, "--train", job.train_shards(), "--output",
                job / recipe, "--init", "none", "--steps", "2", "--images-per-step", "2"},
               kTinyModel);
    set_value(command, "--min-side", "64,80");
    const ProcessResult result = run_process(command);
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

// Of a run's folder the best checkpoint, as in a run that writes.
TEST(Synthetic, StartsFromTheWeightsOfARun) {
  const Job job;
  ASSERT_EQ(run_process(job.train_command(job / "run", 1)).exit_code, 0);
  const ProcessResult result = run_process(
      {"retina-train", "--synthetic", "8", "--images-per-step", "2", "--steps", "1", "--recipe",
       "none", "--init", job / "run", "--min-side", "64", "--max-side", "64", "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("images/s in total"));
}

// The shards are mapped: what a read would return as an error is a SIGBUS there.
TEST(GuardRails, AShardThatIsCutUnderARunIsOneLine) {
  for (const int ranks : {1, 2}) {
    const Job job(Task::kClassification);
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
    EXPECT_THAT(result.err, HasSubstr("error: reading a mapped file failed (the mount is gone"));
    EXPECT_THAT(result.err, Not(HasSubstr("Signal: ")));  // Open MPI's backtrace
  }
}

}  // namespace
}  // namespace retina
