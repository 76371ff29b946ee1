// What every program promises on its command line: exit codes, one line on stderr, nothing left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/cli/programs.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Programs : public testing::TestWithParam<std::string> {
 protected:
  // A refusal: this exit code, nothing on stdout, one line on stderr that names the program.
  static std::string refusal(const std::vector<std::string>& arguments, int exit_code) {
    const ProcessResult result = run_process(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, StartsWith(arguments[0] + ": error: "));
    return result.err;
  }
};

TEST_P(Programs, RefuseNoOptionAnUnknownOneAndAStrayWord) {
  EXPECT_THAT(refusal({GetParam()}, 64), HasSubstr("--help"));
  EXPECT_THAT(refusal({GetParam(), "--outptu", "x"}, 64), HasSubstr("--output"));
  refusal({GetParam(), "stray"}, 64);
}

// oneMKL and Open MPI would end the process there.
TEST_P(Programs, SayThatTheWorkingFolderIsGone) {
  const TestFolder folder;
  const std::string go = cat("mkdir '", folder / "gone", "' && cd '", folder / "gone",
                             "' && rmdir '", folder / "gone", "' && exec '" RETINA_BIN_DIR "/");
  const ProcessResult there = run_process({"/bin/sh", "-c", cat(go, GetParam(), "' --version")});
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_THAT(there.err, HasSubstr("warning: the working folder has been removed"));
  const ProcessResult relative =
      run_process({"/bin/sh", "-c", cat(go, GetParam(), "' --config options.json")});
  EXPECT_EQ(relative.exit_code, 66) << relative.err;
  EXPECT_THAT(relative.err, HasSubstr("error: "));
}

TEST_P(Programs, AnswerTheOptionsOfOtherToolsWithTheirOwn) {
  EXPECT_THAT(refusal({GetParam(), "--save_dir", "x"}, 64),
              HasSubstr("unknown option --save_dir: here it is --output"));
  EXPECT_THAT(refusal({GetParam(), "-h"}, 64), HasSubstr("here it is --help"));
}

TEST_P(Programs, PrintHelpAndVersionsOnStdout) {
  for (const char* option : {"--help", "--version"}) {
    const ProcessResult result = run_process({GetParam(), option});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, StartsWith(GetParam()));
  }
}

TEST_P(Programs, SayThatAnInputIsMissingAndWriteNothing) {
  const TestFolder folder;
  const std::string output = folder / "output";
  EXPECT_THAT(refusal(command_without_inputs(GetParam(), output), 66), HasSubstr("/nowhere/input"));
  EXPECT_FALSE(path_exists(output + "/config.json"));
  EXPECT_FALSE(path_exists(output + "/manifest.json"));
}

TEST_P(Programs, ReadTheirOptionsFromAConfigFile) {
  const TestFolder folder;
  write_file_atomically(folder / "config.json", "{\"output\": \"x\", \"no-such-option\": 1}");
  EXPECT_THAT(refusal({GetParam(), "--config", folder / "config.json"}, 64),
              HasSubstr("no-such-option"));
  write_file_atomically(folder / "config.json", "{\"output\": ");
  EXPECT_THAT(refusal({GetParam(), "--config", folder / "config.json"}, 65), HasSubstr("line 1"));
  refusal({GetParam(), "--config", folder / "missing.json"}, 66);
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(built_programs()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace retina
