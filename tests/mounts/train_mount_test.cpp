// retina-train and its neighbours where file systems lack abilities, fill up, tear or vanish.
#include <gmock/gmock.h>

#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/mounts/train_fixture.h"
#include "tests/support/event_reader.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TrainMount : public TrainFixture {};

TEST_F(TrainMount, APoorMountCostsAWarningForEachThingItLacks) {
  RETINA_FAULTS_OR_SKIP();
  const ProcessResult result =
      train("fsync-folder=EINVAL; lock=ENOLCK; rename-over=EEXIST; mmap=ENODEV path=" +
            job_->train_shards());
  for (const char* lack : {"cannot sync folders", "has no locks", "cannot map files into memory"}) {
    EXPECT_EQ(count_of(lack, result.err), 1) << result.err;
  }
  EXPECT_EQ(count_of("warning:", result.err), 3) << result.err;
  expect_the_calm_result();
}

TEST_F(TrainMount, ShardsMayBeReadOnly) {
  RETINA_FAULTS_OR_SKIP();
  const std::string shards = job_->train_shards();
  const ProcessResult result =
      train("open=EROFS path=" + shards + "; rename=EROFS path=" + shards +
            "; unlink=EROFS path=" + shards + "; lock=ENOLCK path=" + shards);
  EXPECT_EQ(count_of("warning:", result.err), 0) << result.err;
  expect_the_calm_result();
}

TEST_F(TrainMount, ScratchGivesTheSameBitsAndIsLeftEmpty) {
  RETINA_FAULTS_OR_SKIP();
  const std::string local = folder_ / "local";
  train("write=short every=3 path=" + folder_.path(), 0, {"--scratch", local});
  expect_the_calm_result();
  EXPECT_TRUE(fs::is_empty(local));
}

TEST_F(TrainMount, ACopyThatReadsBackDifferentlyIs74AndLosesNothing) {
  RETINA_FAULTS_OR_SKIP();
  const std::vector<std::string> scratch = {"--scratch", folder_ / "local"};
  const ProcessResult result =
      train("read=flip times=1 path=" + run() + "/checkpoint-01.pt.tmp", 74, scratch);
  EXPECT_THAT(result.err, HasSubstr("reads back differently"));
  EXPECT_EQ(newest_step(run()), 1);
  expect_that_training_again_ends_well();
}

TEST_F(TrainMount, TooLittleSpaceIsFoundBeforeTheFirstStep) {
  RETINA_FAULTS_OR_SKIP();
  const ProcessResult output = train("space=free bytes=1000000 path=" + run(), 74);
  EXPECT_THAT(output.err, HasSubstr("too little free space"));
  EXPECT_EQ(steps_logged(run()), 0);
  const ProcessResult scratch = train("space=free bytes=1000000 path=" + (folder_ / "local"), 74,
                                      {"--scratch", folder_ / "local"});
  EXPECT_THAT(scratch.err, HasSubstr("--scratch"));
  expect_that_training_again_ends_well();
}

TEST_F(TrainMount, AFullDiskIs74KeepsTheLastGoodCheckpointAndContinues) {
  RETINA_FAULTS_OR_SKIP();
  train("write=ENOSPC path=" + run() + "/checkpoint-01.pt", 74);
  EXPECT_EQ(newest_step(run()), 1);
  train("write=ENOSPC path=" + (folder_ / "local"), 74, {"--scratch", folder_ / "local"});
  EXPECT_EQ(newest_step(run()), 1);
  train("write=ENOSPC path=" + run() + "/checkpoints.json", 74);
  EXPECT_EQ(newest_step(run()), 2);
  expect_that_training_again_ends_well();
}

TEST_F(TrainMount, AFullDiskUnderTensorBoardsEventsIs74AndContinues) {
  RETINA_FAULTS_OR_SKIP();
  const std::vector<std::string> more = {"--tensorboard", folder_ / "events"};
  // A file's two first events and those of two steps fit.
  const ProcessResult full = train("write=ENOSPC after=4 path=" + (folder_ / "events"), 74, more);
  EXPECT_THAT(full.err, HasSubstr("events.out.tfevents"));
  EXPECT_THAT(full.err, HasSubstr("writing failed"));
  expect_that_training_again_ends_well(more);
  EXPECT_EQ(shown_scalars(folder_ / "events").at("train/loss").size(), kSteps);
}

TEST_F(TrainMount, AnOutputThatVanishesIs74AndContinuesWhenItIsBack) {
  RETINA_FAULTS_OR_SKIP();
  for (const std::string effect : {"vanish", "unmount"}) {
    SCOPED_TRACE(effect);
    // config.json, the first checkpoint and the index are renamed before; nothing may be begun at
    // the empty place.
    train("rename=" + effect + " times=1 after=3 path=" + run(), 74);
    EXPECT_FALSE(path_exists(run() + "/config.json"));
    EXPECT_EQ(newest_step(run() + ".gone"), 1);
    fs::remove_all(run());
    fs::rename(run() + ".gone", run());
    expect_that_training_again_ends_well();
    fs::remove_all(run());
  }
}

TEST_F(TrainMount, EvaluationAndConversionReadPoorMountsToo) {
  RETINA_FAULTS_OR_SKIP();
  const std::string checkpoint = last_checkpoint(*job_ / "calm");
  const std::string poor =
      "fsync-folder=ENOTSUP; lock=ENOTSUP; rename-over=EACCES; open=EROFS path=" +
      (*job_ / "calm") + "; mmap=ENODEV path=" + job_->val_shards();
  const std::vector<std::string> evaluate = {
      "retina-eval",          "--model",  checkpoint, "--data", job_->val_shards(), "--output",
      folder_ / "evaluation", "--device", "cpu"};
  for (const char* again : {"", "--overwrite"}) {
    auto command = evaluate;
    if (*again != '\0') command.push_back(again);
    const ProcessResult result = run_process(faulty(poor, command));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count_of("warning:", result.err), 3) << result.err;
    EXPECT_TRUE(path_exists(folder_ / "evaluation/metrics.json"));
  }
  const ProcessResult converted = run_process(faulty(
      poor, {"retina-convert", "--checkpoint", checkpoint, "--output", folder_ / "model.onnx"}));
  EXPECT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_TRUE(path_exists(folder_ / "model.onnx"));
}

}  // namespace
}  // namespace retina
