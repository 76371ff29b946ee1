// retina-eval with the tiny world's detector: the fixture of the tests of --data and --images.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shared/base/file.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/child_process.h"
#include "tests/support/test_folder.h"

namespace retina {

class TinyModelCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TestFolder;
    write_tiny_checkpoint(*shared_ / "model.pt", tiny_network(3));
  }
  static void TearDownTestSuite() { delete shared_; }

  // `input`: --data or --images, and its values. `output` is a folder below folder_. A low
  // threshold: fresh networks score about .01.
  std::vector<std::string> command_on(const std::vector<std::string>& input,
                                      const std::string& output,
                                      const std::vector<std::string>& more) const {
    std::vector<std::string> words{"retina-eval", "--model", model_};
    words.insert(words.end(), input.begin(), input.end());
    words.insert(words.end(), {"--output", folder_ / output, "--device", "cpu", "--compute-threads",
                               "1", "--score-threshold", "0.008"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Of the output "out".
  void expect_refusal(const ProcessResult& result, int exit_code, const std::string& text) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr(text));
    EXPECT_FALSE(path_exists(folder_ / "out/images.json"));
    EXPECT_FALSE(path_exists(folder_ / "out/metrics.json"));
  }
  std::string output(const std::string& name) const { return read_file(folder_ / name); }

  static inline TestFolder* shared_ = nullptr;
  TestFolder folder_;
  std::string model_ = *shared_ / "model.pt";
};

}  // namespace retina
