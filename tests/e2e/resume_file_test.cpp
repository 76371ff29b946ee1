// --resume FILE: a new run that goes on where a checkpoint of another stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shared/base/file.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

using Words = std::vector<std::string>;

// A run of 3 steps, where an epoch has 2.
class ResumeFile : public testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult result = train(run_, 3);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const std::string& file : {early_, newest_}) ASSERT_TRUE(path_exists(file)) << file;
  }

  ProcessResult train(const std::string& run, int steps, const Words& more = {}) const {
    return run_process(job_.train_command(run, steps, more));
  }

  void expect_refusal(const ProcessResult& result, const std::string& text) const {
    EXPECT_EQ(result.exit_code, 78) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
  }

  const Job job_;
  const std::string run_ = job_ / "run";
  const std::string early_ = run_ + "/checkpoint-01.pt";
  const std::string newest_ = run_ + "/checkpoint-02-00000003.pt";
};

TEST_F(ResumeFile, WantsTheOptionsThatDecideTheResult) {
  expect_refusal(train(job_ / "other", 4, {"--resume", newest_, "--seed", "2", "--ema", "0.5"}),
                 "its run had other settings: ema (was 0, now 0.5), seed (was 1, now 2)");
  EXPECT_FALSE(path_exists(job_ / "other"));
  const ProcessResult same = train(job_ / "same", 4, {"--resume", newest_});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(steps_logged(job_ / "same"), 1) << "step 4";
  EXPECT_THAT(read_file(job_ / "same/metrics.jsonl"), testing::Not(HasSubstr("epoch_seconds")))
      << "step 3 is another run's";
}

TEST_F(ResumeFile, IsRefusedWhereTheRunIsFurther) {
  const std::string before = read_file(run_ + "/metrics.jsonl");
  expect_refusal(train(run_, 4, {"--resume", early_}), "its run's latest checkpoint is " + newest_);
  EXPECT_EQ(read_file(run_ + "/metrics.jsonl"), before);
  const ProcessResult newest = train(run_, 4, {"--resume", newest_});
  EXPECT_EQ(newest.exit_code, 0) << newest.err;
  EXPECT_EQ(steps_logged(run_), 4);
}

TEST_F(ResumeFile, GoesOnWhenItsCommandIsGivenAgain) {
  for (const int steps : {3, 4}) {
    const ProcessResult result = train(job_ / "other", steps, {"--resume", early_});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(steps_logged(job_ / "other"), 2) << "steps 3 and 4";
  expect_refusal(train(job_ / "other", 5, {"--resume", newest_}),
                 "its run's latest checkpoint is ");
}

TEST_F(ResumeFile, IsNotRemovedByOverwrite) {
  expect_refusal(train(run_, 4, {"--overwrite", "--resume", early_}),
                 "--overwrite would remove --resume " + early_);
  expect_refusal(train(run_, 4, {"--overwrite", "--init", newest_}),
                 "--overwrite would remove --init " + newest_);
  // What does not fit is told before anything is removed.
  const std::string copy = job_ / "copy.pt";
  std::filesystem::copy(newest_, copy);
  expect_refusal(train(run_, 4, {"--overwrite", "--resume", copy, "--seed", "3"}), "seed (was 1");
  expect_refusal(train(run_, 4, {"--overwrite", "--init", copy, "--head-norm", "none"}), copy);
  EXPECT_EQ(last_checkpoint(run_), newest_);
  for (const std::string& file : {early_, newest_}) EXPECT_TRUE(path_exists(file)) << file;
  const ProcessResult fits = train(run_, 4, {"--overwrite", "--resume", copy});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_FALSE(path_exists(early_));
  EXPECT_EQ(steps_logged(run_), 1) << "step 4";
}

// Nobody knows whose they are, so nobody removes them.
TEST_F(ResumeFile, OfNoKnownRunIsNeitherContinuedNorRemoved) {
  remove_file(run_ + "/config.json");
  const std::string text = "holds checkpoint-01.pt, but no config.json of the run";
  expect_refusal(train(run_, 4), text);
  expect_refusal(train(run_, 4, {"--overwrite"}), text);
  for (const std::string& file : {early_, newest_}) EXPECT_TRUE(path_exists(file)) << file;
}

}  // namespace
}  // namespace retina
