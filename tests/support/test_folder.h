// What tests share: a temporary folder, the real test data's place, running a program.
#pragma once

#include <string>
#include <vector>

namespace retina {

// A new folder under $TMPDIR, removed with its content at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Path of real test data below $RETINA_TEST_DATA (default ../shared/data beside the checkout), or
// empty when it is not there: the test then skips.
std::string test_data(const std::string& relative);

// What a child process left.
struct ProcessResult {
  int exit_code = -1;  // 128 + signal when killed
  std::string out, err;
};

// Runs `arguments[0]` (a program of build/bin when it has no slash) and waits for it.
ProcessResult run_process(const std::vector<std::string>& arguments);

// The same for a program of build/bin, with stdin, stdout and stderr closed: what the next opened
// files take.
ProcessResult run_without_streams(const std::vector<std::string>& arguments);

}  // namespace retina

// Declares `std::string name` as the path of real data, or skips the test saying what is missing.
#define RETINA_DATA_OR_SKIP(name, relative)               \
  const std::string name = ::retina::test_data(relative); \
  if (name.empty()) GTEST_SKIP() << "no test data: " relative " (set RETINA_TEST_DATA)"
