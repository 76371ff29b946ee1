// --check-args: parses and validates as a real run does, and touches no file, device or rank count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/cli/programs.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

std::string test_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !std::isalnum(c); }, '_');
  return text;
}

class CheckArgs : public testing::TestWithParam<std::string> {
 protected:
  CheckArgs() {
    for (const char* name : {"work", "tmp"}) std::filesystem::create_directory(folder_ / name);
    write_file_atomically(folder_ / "work/here", "x");
    before_ = listing();
  }

  // The words as one shell line that starts in the work folder, with a temporary folder of its own.
  std::vector<std::string> in_work_folder(const std::vector<std::string>& arguments) const {
    std::string line = cat("cd '", folder_ / "work", "' && TMPDIR='", folder_ / "tmp", "' exec");
    for (const std::string& argument : arguments) line += cat(" '", argument, "'");
    return {"/bin/bash", "-c", line};
  }
  static std::string program(const std::string& name) { return RETINA_BIN_DIR "/" + name; }

  // Every file and folder with the time of its last change.
  std::vector<std::string> listing() const {
    std::vector<std::string> lines;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      lines.push_back(
          cat(entry.path().string(), " ", entry.last_write_time().time_since_epoch().count()));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  void expect_untouched() const { EXPECT_EQ(listing(), before_); }

  const TestFolder folder_;
  std::vector<std::string> before_;
};

TEST_P(CheckArgs, AcceptsWhatDoesNotExistAndLeavesNoTrace) {
  auto command = command_without_inputs(GetParam(), "here/below/a/file");
  command[0] = program(command[0]);
  command.push_back("--check-args");
  const ProcessResult result = run_process(in_work_folder(command));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  // What its data would decide, it would say.
  EXPECT_EQ(result.out, GetParam() == "retina-train"
                            ? "not checked further: /nowhere/input: does not exist; hint: give the "
                              "folder that coco-pack --output wrote\n"
                            : "");
  expect_untouched();
}

TEST_P(CheckArgs, IsTheSameOnEveryRankCount) {
  auto command = command_without_inputs(GetParam(), folder_ / "work/made");
  command.push_back("--check-args");
  if (GetParam() == "retina-train") {
    // Too few for 3 ranks, and another number of them.
    command.insert(command.end(), {"--images-per-step", "2", "--expect-ranks", "5"});
  }
  const ProcessResult result = run_process(under_mpirun(3, command));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(All, CheckArgs, testing::ValuesIn(built_programs()),
                         [](const auto& instance) { return test_name(instance.param); });

TEST(CheckArgsOfRanks, AsksForNoDevice) {
  const auto programs = built_programs();
  for (const std::string& name : programs) {
    if (name == "coco-pack") continue;
    auto command = command_without_inputs(name, "/proc/nowhere");
    command.insert(command.end(), {"--device", "cuda", "--check-args"});
    EXPECT_EQ(run_process(command).exit_code, 0) << name;
  }
}

// Command lines that contradict themselves; the options' own tests have all contradictions.
std::vector<std::vector<std::string>> contradictions() {
  const std::vector<std::vector<std::string>> all = {
      {"coco-pack", "--quality", "50"},
      {"coco-pack", "--verify", "x"},
      {"coco-pack", "--shard-size", "1KiB"},
      {"retina-train", "--min-side", "800", "--max-side", "100"},
      {"retina-train", "--anchor-sizes", "32,64"},
      {"retina-train", "--checkpoint-every", "5parsecs"},
      {"retina-train", "--backbone", "resnet19"},
      {"retina-eval", "--annotations", "x"},
      {"retina-eval", "--score-threshold", "2"},
      {"retina-convert", "--nms-threshold", "-1"},
      {"retina-convert", "--verification-images", "0"},
      {"retina-convert", "--categories", "coco"},
  };
  const auto programs = built_programs();
  std::vector<std::vector<std::string>> built;
  for (const auto& one : all) {
    if (std::find(programs.begin(), programs.end(), one[0]) == programs.end()) continue;
    built.push_back(command_without_inputs(one[0], "/proc/nowhere"));
    built.back().insert(built.back().end(), one.begin() + 1, one.end());
  }
  return built;
}

TEST(CheckArgsOfContradictions, RefusesInTheWordsOfARealRun) {
  for (const auto& command : contradictions()) {
    auto checked = command;
    checked.push_back("--check-args");
    const ProcessResult real = run_process(command), check = run_process(checked);
    EXPECT_EQ(check.exit_code, 64) << testing::PrintToString(command) << check.err;
    EXPECT_EQ(real.exit_code, 64) << testing::PrintToString(command) << real.err;
    EXPECT_EQ(real.err, check.err);
    EXPECT_THAT(check.err, HasSubstr("error: "));
  }
}

// The first contradiction of each program: which rank reports it does not depend on what it is.
TEST(CheckArgsOfContradictions, AreToldOnceByAllRanks) {
  std::set<std::string> told;
  for (auto command : contradictions()) {
    if (command[0] != "retina-train" && command[0] != "retina-eval") continue;
    if (!told.insert(command[0]).second) continue;
    command.push_back("--check-args");
    const ProcessResult result = run_process(under_mpirun(3, command));
    EXPECT_EQ(result.exit_code, 64) << result.err;
    const std::size_t first = result.err.find("error: ");
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(result.err.find(command[0] + ": error: ", first + 1), std::string::npos)
        << result.err;
  }
}

}  // namespace
}  // namespace retina
