#include "train/run/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
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

// The newest and the best; of models that find nothing the last is the best, since it learned most.
TEST(RunDir, KeepsTheNewestAndTheBest) {
  struct Case {
    std::vector<std::optional<double>> aps;
    int keep;
    std::vector<std::string> files;
    std::string best;
  };
  for (const Case& one :
       {Case{{0.1, 0.4, 0.2, 0.3, 0.35}, 2, {"02", "04", "05"}, "02"},
        Case{{0, 0, 0}, 3, {"01", "02", "03"}, "03"}, Case{{{}, {}, {}, {}}, 1, {"04"}, ""}}) {
    const TestFolder folder;
    RunDir dir(folder / "run");
    dir.write_config({});
    std::int64_t step = 0;
    for (const std::optional<double>& ap : one.aps) dir.record(entry(dir, ++step, ap), one.keep);
    const auto name = [](const std::string& number) { return cat("checkpoint-", number, ".pt"); };
    std::vector<std::string> files;
    for (const std::string& number : one.files) files.push_back(name(number));
    EXPECT_EQ(dir.checkpoint_files(), files);
    const JsonFile index = JsonFile::read(dir.path("checkpoints.json"));
    EXPECT_EQ(index.root().at("last").as_string(), files.back());
    if (!one.best.empty()) {
      EXPECT_EQ(index.root().at("best").as_string(), name(one.best));
    }
  }
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
  const RunConfig other{.options = {{"lr", "0.02"}, {"threads", "2", true}},
                        .train_fingerprint = "bb"};
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { dir.check_same_run(other); }),
              AllOf(HasSubstr("lr (was 0.01, now 0.02)"), HasSubstr("the contents of --train")));
}

TEST(RunDir, WritesNothingWhereItsFolderHasVanished) {
  const TestFolder folder;
  RunDir dir(folder / "run");
  dir.write_config({});
  EXPECT_NO_THROW(dir.check_present());
  std::filesystem::rename(folder / "run", folder / "gone");
  make_folder(folder / "run");  // where it was mounted
  const auto record = [&] { dir.record({.file = "checkpoint-01.pt", .step = 1}, 1); };
  EXPECT_NE(refusal_of(ErrorKind::kIo, record), "accepted");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

// Configurations that are written one after the other, one that may continue, and one that may not.
// Best checkpoint, plateau and early stop compare APs, which are of one validation set then.
TEST(RunDir, KnowsWhichConfigurationsContinueARun) {
  struct Case {
    const char* what;
    std::vector<RunConfig> written;
    std::vector<RunConfig> same, other;
  };
  const RunConfig plain, weights{.init_fingerprint = "11"}, others{.init_fingerprint = "22"},
      none{.init_none = true}, set{.validation_fingerprint = "11"},
      other_set{.validation_fingerprint = "22"}, unset{.options = {{"norm", "null"}}},
      frozen{.options = {{"norm", "\"frozen\""}}}, batch{.options = {{"norm", "\"batch\""}}};
  for (const Case& one :
       {Case{"weights, while they are there", {weights}, {weights, plain}, {others, none}},
        Case{"weights that are gone", {weights, plain}, {weights}, {others, none}},
        Case{"from scratch", {plain}, {none}, {}},
        Case{"an unset norm", {frozen}, {unset}, {batch}},
        Case{"a validation set", {set}, {set, plain}, {other_set}},
        Case{"left out for a while", {set, plain}, {set}, {other_set}},
        Case{"added later", {plain, set}, {set}, {other_set}}}) {
    const TestFolder folder;
    RunDir dir(folder / "run");
    for (const RunConfig& config : one.written) {
      if (dir.has_run()) {
        EXPECT_NO_THROW(dir.check_same_run(config)) << one.what;
      }
      dir.write_config(config);
    }
    for (const RunConfig& config : one.same)
      EXPECT_NO_THROW(dir.check_same_run(config)) << one.what;
    for (const RunConfig& config : one.other) EXPECT_THROW(dir.check_same_run(config), Error);
  }
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
  EXPECT_THAT(refusal_of(ErrorKind::kIo, [&] { dir.clear(); }),
              HasSubstr("checkpoint-02.pt: cannot be removed"));
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
