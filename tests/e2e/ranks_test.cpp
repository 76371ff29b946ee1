// The number of ranks changes who loads what, not what is learnt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/e2e/weights.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// A step's worth of options over the job's own.
std::vector<std::string> overridden(std::vector<std::string> command,
                                    const std::vector<std::string>& options) {
  for (std::size_t i = 0; i + 1 < options.size(); i += 2) {
    const auto found = std::find(command.begin(), command.end(), options[i]);
    if (found != command.end()) {
      *(found + 1) = options[i + 1];
    } else {
      command.insert(command.end(), {options[i], options[i + 1]});
    }
  }
  return command;
}

class Ranks : public testing::Test {
 protected:
  // The model after training on this number of ranks.
  NamedTensors train(int ranks, int steps, const std::vector<std::string>& options) {
    const std::string run = job_ / ("run-" + std::to_string(run_count_++));
    const auto command = overridden(job_.train_command(run, steps), options);
    const ProcessResult result = run_on(ranks, command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return load_checkpoint(last_checkpoint(run)).model;
  }

 private:
  Job job_;
  int run_count_ = 0;
};

TEST_F(Ranks, OneTimesFourAndTwoTimesTwoImagesLearnTheSame) {
  const std::vector<std::string> v1 = {"--optimizer", "sgd",   "--norm",    "frozen",
                                       "--head-norm", "none",  "--augment", "flip=0.5",
                                       "--lr",        "0.0001"};
  const double difference = relative_difference(train(1, 20, v1), train(2, 20, v1));
  EXPECT_GT(difference, 0)
      << "other additions, other last bits: equal files would be one run twice";
  EXPECT_LE(difference, 1e-5);
  RecordProperty("relative_difference", std::to_string(difference));
}

TEST_F(Ranks, SyncBnLearnsTheSameAsOneRank) {
  const std::vector<std::string> plain = {"--norm", "batch", "--optimizer",
                                          "sgd",    "--lr",  "0.0001"};
  std::vector<std::string> synchronised = plain;
  synchronised.insert(synchronised.end(), {"--sync-bn", "on"});
  // Few steps: training enlarges what rounding in f32 begins.
  const auto one = train(1, 3, synchronised);
  const auto two = train(2, 3, synchronised);
  EXPECT_LE(relative_difference(one, two), 1e-5);
  EXPECT_LE(relative_difference(one, two, ".running_var"), 1e-4);
  EXPECT_GE(relative_difference(one, train(2, 3, plain), ".running_var"), 1e-2)
      << "without it each rank normalises by its own two images";
}

// Shells and schedulers leave variables of a rank to a process that no launcher started.
TEST(LoneStart, OnlyALauncherThatOpenMpiCanReachMakesARank) {
  const Job job(Task::kClassification);
  int count = 0;
  const auto train = [&](std::vector<std::string> variables) {
    std::vector<std::string> command = job.train_command(job / cat("run-", count++), 1);
    command[0] = RETINA_BIN_DIR "/retina-train";
    variables.insert(variables.begin(), "/usr/bin/env");
    command.insert(command.begin(), variables.begin(), variables.end());
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  const std::vector<std::string> of_slurm{"SLURM_JOB_ID=1", "SLURM_NTASKS=4",  "SLURM_PROCID=0",
                                          "SLURM_STEPID=0", "SLURM_STEP_ID=0", "SLURM_LOCALID=0",
                                          "PMI_RANK=0",     "PMI_SIZE=4"};
  EXPECT_THAT(train(of_slurm), HasSubstr("warning: PMI_SIZE is 4, but no launcher"));
  EXPECT_THAT(train({"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0"}),
              HasSubstr("warning: WORLD_SIZE is 2, but no launcher"));
  // Of an mpirun that has ended: nothing listens at port 1.
  EXPECT_THAT(train({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=0",
                     "PMIX_NAMESPACE=7", "PMIX_SERVER_URI2=7.0;tcp4://127.0.0.1:1"}),
              HasSubstr("warning: OMPI_COMM_WORLD_SIZE is 2, but no launcher"));
  EXPECT_THAT(train({"SLURM_NTASKS=1", "PMI_SIZE=1"}), Not(HasSubstr("launcher")));
}

TEST(LoneStart, TrainsWhereTheWorkingFolderIsGone) {
  const Job job(Task::kClassification);
  std::string line = cat("mkdir '", job / "gone", "' && cd '", job / "gone", "' && rmdir '",
                         job / "gone", "' && exec '" RETINA_BIN_DIR "/retina-train'");
  const std::vector<std::string> command = job.train_command(job / "run", 1);
  for (std::size_t i = 1; i < command.size(); ++i) line += cat(" '", command[i], "'");
  const ProcessResult result = run_process({"/bin/sh", "-c", line});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the working folder has been removed"));
}

}  // namespace
}  // namespace retina
