#include "train/run/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

void touch(const std::string& path) {
  std::ofstream(path) << "x";
}

CheckpointEntry entry(RunDir& dir, std::int64_t step, std::optional<double> ap = {}) {
  const std::string name = checkpoint_name({.step = step, .epoch = step, .epoch_end = true});
  touch(dir.path(name));
  return {.file = name, .step = step, .ap = ap, .xxh3 = "0"};
}

TEST(RunDir, NamesCheckpointsByEpochAndStep) {
  EXPECT_EQ(checkpoint_name({.step = 73, .epoch = 1, .epoch_end = true}), "checkpoint-01.pt");
  EXPECT_EQ(checkpoint_name({.step = 500, .epoch = 7}), "checkpoint-07-00000500.pt");
}

TEST(RunDir, KeepsTheNewestAndTheBest) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  const std::vector<double> aps = {0.1, 0.4, 0.2, 0.3, 0.35};
  for (std::int64_t step = 1; step <= 5; ++step) {
    dir.record(entry(dir, step, aps[static_cast<std::size_t>(step - 1)]), 2);
  }
  EXPECT_THAT(dir.checkpoint_files(),
              ElementsAre("checkpoint-02.pt", "checkpoint-04.pt", "checkpoint-05.pt"));
  const JsonFile index = JsonFile::read(dir.path("checkpoints.json"));
  EXPECT_EQ(index.root().at("last").as_string(), "checkpoint-05.pt");
  EXPECT_EQ(index.root().at("best").as_string(), "checkpoint-02.pt");
}

// A model that finds nothing yet has learned most at its last validation.
TEST(RunDir, TakesTheLastOfModelsThatFindNothing) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  for (std::int64_t step = 1; step <= 3; ++step) dir.record(entry(dir, step, 0), 3);
  const JsonFile index = JsonFile::read(dir.path("checkpoints.json"));
  EXPECT_EQ(index.root().at("best").as_string(), "checkpoint-03.pt");
}

TEST(RunDir, KeepsOnlyTheNewestWithoutValidation) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  for (std::int64_t step = 1; step <= 4; ++step) dir.record(entry(dir, step), 1);
  EXPECT_THAT(dir.checkpoint_files(), ElementsAre("checkpoint-04.pt"));
}

TEST(RunDir, KeepsHowGradientsTravelUntilItIsCleared) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  EXPECT_EQ(dir.read_buckets(), "");
  dir.write_buckets("{}");
  EXPECT_EQ(dir.read_buckets(), "{}");
  dir.clear();
  EXPECT_EQ(dir.read_buckets(), "");
}

TEST(RunDir, RefusesAnotherConfigurationNamingTheKeys) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config(
      {.options = {{"lr", "0.01"}, {"threads", "2", true}}, .train_fingerprint = "aa"});
  EXPECT_NO_THROW(dir.check_same_run(
      {.options = {{"lr", "0.01"}, {"threads", "9", true}}, .train_fingerprint = "aa"}));
  try {
    dir.check_same_run(
        {.options = {{"lr", "0.02"}, {"threads", "2", true}}, .train_fingerprint = "bb"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(error.what(), HasSubstr("lr (was 0.01, now 0.02)"));
    EXPECT_THAT(error.what(), HasSubstr("the contents of --train"));
  }
}

TEST(RunDir, WritesNothingWhereItsFolderHasVanished) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  EXPECT_NO_THROW(dir.check_present());
  std::filesystem::rename(folder / "run", folder / "gone");
  make_folder(folder / "run");  // where it was mounted
  try {
    dir.record({.file = "checkpoint-01.pt", .step = 1}, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

TEST(RunDir, ComparesInitialWeightsWhileTheyAreThere) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({.train_fingerprint = "aa", .init_fingerprint = "11"});
  EXPECT_NO_THROW(dir.check_same_run({.train_fingerprint = "aa", .init_fingerprint = "11"}));
  EXPECT_THROW(dir.check_same_run({.train_fingerprint = "aa", .init_fingerprint = "22"}), Error);
  EXPECT_NO_THROW(dir.check_same_run({.train_fingerprint = "aa"}));
  dir.write_config({.train_fingerprint = "aa"});  // a run that continues without the file
  EXPECT_THROW(dir.check_same_run({.train_fingerprint = "aa", .init_fingerprint = "22"}), Error);
}

TEST(RunDir, LetsNoRunWithWeightsGoOnFromScratchOnPurpose) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({.train_fingerprint = "aa"});
  EXPECT_NO_THROW(dir.check_same_run({.train_fingerprint = "aa", .init_none = true}));
  dir.clear();
  dir.write_config({.train_fingerprint = "aa", .init_fingerprint = "11"});
  EXPECT_THROW(dir.check_same_run({.train_fingerprint = "aa", .init_none = true}), Error);
}

// As recipes named the norm once that follows from --init.
TEST(RunDir, TakesAnUnsetNormForTheOneThatItStandsFor) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({.options = {{"norm", "\"frozen\""}}});
  EXPECT_NO_THROW(dir.check_same_run({.options = {{"norm", "null"}}}));
  EXPECT_THROW(dir.check_same_run({.options = {{"norm", "\"batch\""}}}), Error);
}

// Best checkpoint, plateau and early stop compare APs, which are of the same set then.
TEST(RunDir, RefusesAnotherValidationSet) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  const RunConfig first{.train_fingerprint = "aa", .validation_fingerprint = "11"};
  dir.write_config(first);
  EXPECT_NO_THROW(dir.check_same_run(first));
  const RunConfig none{.train_fingerprint = "aa"};
  EXPECT_NO_THROW(dir.check_same_run(none));
  dir.write_config(none);  // a run that continues without validation remembers the set
  try {
    dir.check_same_run({.train_fingerprint = "aa", .validation_fingerprint = "22"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(
        error.what(),
        HasSubstr("the contents of --validation, or --validation-images (was \"11\", now \"22\")"));
  }
  EXPECT_NO_THROW(dir.check_same_run(first));
}

TEST(RunDir, TakesTheFirstValidationSetOfARunThatHadNone) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({.train_fingerprint = "aa"});  // or one of before the field
  const RunConfig now{.train_fingerprint = "aa", .validation_fingerprint = "11"};
  EXPECT_NO_THROW(dir.check_same_run(now));
  dir.write_config(now);
  EXPECT_THROW(dir.check_same_run({.train_fingerprint = "aa", .validation_fingerprint = "22"}),
               Error);
}

TEST(ValidationIdentity, IsTheSetAndHowMuchOfItIsMeasured) {
  EXPECT_EQ(validation_identity("11", 0, 20), "11");
  EXPECT_EQ(validation_identity("11", 20, 20), "11") << "all of it";
  EXPECT_NE(validation_identity("11", 19, 20), "11");
  EXPECT_NE(validation_identity("11", 19, 20), validation_identity("11", 18, 20));
}

TEST(RunDir, RefusesFilesOfARunsNamesThatNoRunOfItsWrote) {
  for (const char* name : {"checkpoint-03.pt", "checkpoints.json", "metrics.jsonl", "buckets.json",
                           "report.html", "config.json"}) {
    const TestFolder folder;
    RunDir dir(folder / "run");
    touch(dir.path(name));
    try {
      dir.check_own();
      FAIL() << "accepted " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      EXPECT_THAT(error.what(), HasSubstr(": holds " + std::string(name) + ","));
      EXPECT_THAT(error.hint(), Not(HasSubstr("--overwrite")));
    }
  }
}

TEST(RunDir, KnowsAnEvaluationsConfigurationFromARuns) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  for (const char* text :
       {R"({"fixed": {"model": "11", "data": "22"}})", R"({"fixed": 1})", "[]"}) {
    write_file_atomically(dir.path("config.json"), text);
    EXPECT_THROW(dir.check_own(), Error) << text;
  }
}

TEST(RunDir, IsItsRunsWhateverElseLiesThere) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  touch(dir.path("job-17.log"));
  touch(dir.path("checkpoint-01.pt.tmp"));  // of a kill
  make_folder(dir.path("evaluation"));
  EXPECT_NO_THROW(dir.check_own()) << "nothing of a run's";
  dir.write_config({});
  for (const char* name : {"checkpoint-03.pt", "metrics.jsonl", "report.html"})
    touch(dir.path(name));
  EXPECT_NO_THROW(dir.check_own());
  dir.clear();
  EXPECT_NO_THROW(dir.check_own());
}

// A checkpoint that cannot be removed stands for a kill in between.
TEST(RunDir, ClearRemovesTheConfigurationLast) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  make_folder(dir.path("checkpoint-02.pt/inside"));
  try {
    dir.clear();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-02.pt: cannot be removed"));
  }
  EXPECT_TRUE(dir.has_run());
}

TEST(RunDir, RemembersTheFileThatItsRunBeganFrom) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  EXPECT_EQ(dir.resume_fingerprint(), "");
  dir.write_config({.resume_fingerprint = "11"});
  dir.write_config({});  // continued without naming the file
  EXPECT_EQ(dir.resume_fingerprint(), "11");
  EXPECT_NO_THROW(dir.check_same_run({}));
}

TEST(RunDir, KnowsItsOwnCheckpoints) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  touch(dir.path("checkpoint-01.pt"));
  touch(dir.path("weights.pt"));
  touch(folder / "checkpoint-01.pt");
  std::filesystem::create_symlink(dir.path("checkpoint-01.pt"), folder / "link.pt");
  EXPECT_TRUE(dir.has_checkpoint(folder / "run/../run/checkpoint-01.pt"));
  EXPECT_TRUE(dir.has_checkpoint(folder / "link.pt"));
  EXPECT_FALSE(dir.has_checkpoint(dir.path("weights.pt")));
  EXPECT_FALSE(dir.has_checkpoint(folder / "checkpoint-01.pt"));
  EXPECT_FALSE(dir.has_checkpoint(dir.path("checkpoint-02.pt")));
}

TEST(RunDir, IsLockedAgainstASecondJob) {
  const TestFolder folder;
  const RunDir first(folder / "run");
  EXPECT_THROW(RunDir(folder / "run"), Error);
}

TEST(RunDir, ClearLeavesForeignFilesAlone) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  touch(dir.path("notes.txt"));
  touch(dir.path("checkpoint-01.pt.tmp"));
  dir.write_config({});
  dir.record(entry(dir, 1), 1);
  dir.clear();
  EXPECT_FALSE(dir.has_run());
  EXPECT_THAT(dir.checkpoint_files(), ElementsAre());
  EXPECT_FALSE(path_exists(dir.path("checkpoint-01.pt.tmp")));
  EXPECT_TRUE(path_exists(dir.path("notes.txt")));
}

}  // namespace
}  // namespace retina
