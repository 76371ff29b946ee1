#include "tests/support/test_folder.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "shared/base/error.h"
#include "shared/base/file.h"

namespace retina {

namespace fs = std::filesystem;

TestFolder::TestFolder() {
  std::string pattern = (fs::temp_directory_path() / "retina-test-XXXXXX").string();
  RETINA_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string test_data(const std::string& relative) {
  const char* root = std::getenv("RETINA_TEST_DATA");
  const fs::path base =
      root != nullptr ? fs::path(root) : fs::path(RETINA_SOURCE_DIR) / ".." / "shared" / "data";
  const fs::path path = (base / relative).lexically_normal();
  return fs::exists(path) ? path.string() : "";
}

ProcessResult run_process(const std::vector<std::string>& arguments) {
  const TestFolder folder;
  std::string program = arguments.at(0);
  if (program.find('/') == std::string::npos && fs::exists(fs::path(RETINA_BIN_DIR) / program)) {
    program = (fs::path(RETINA_BIN_DIR) / program).string();
  }
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string out = folder / "out", err = folder / "err";
  const pid_t child = ::fork();
  RETINA_CHECK(child >= 0);
  if (child == 0) {
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    ::execvp(program.c_str(), argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_file(out),
          .err = read_file(err)};
}

}  // namespace retina
