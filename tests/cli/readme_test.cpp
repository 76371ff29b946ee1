// Every command that README shows parses.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "shared/base/file.h"
#include "tests/cli/programs.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// The words of README's indented lines that run one of our programs, from the program on.
std::vector<std::vector<std::string>> commands_of_readme() {
  const std::string folder = "build/bin/";
  std::vector<std::vector<std::string>> commands;
  std::istringstream readme(read_file(RETINA_SOURCE_DIR "/README.md"));
  for (std::string line; std::getline(readme, line);) {
    const std::size_t start = line.find(folder);
    if (!line.starts_with("    ") || start == std::string::npos) continue;
    std::istringstream words(line.substr(start + folder.size()));
    std::vector<std::string> command;
    for (std::string word; words >> word;) command.push_back(word);
    commands.push_back(command);
  }
  return commands;
}

TEST(Readme, ShowsCommandsThatParse) {
  const auto programs = built_programs();
  std::size_t checked = 0;
  for (auto command : commands_of_readme()) {
    if (std::find(programs.begin(), programs.end(), command[0]) == programs.end()) continue;
    command.push_back("--check-args");
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << command[0] << ": " << result.err;
    ++checked;
  }
  EXPECT_GE(checked, programs.size());
}

}  // namespace
}  // namespace retina
