// Checkpoints of untrained models, for tests that do not link LibTorch.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "tests/support/test_folder.h"

namespace retina {

// What the program make-checkpoint writes with `options` goes to `path`; the program runs once a
// process.
inline void make_checkpoint(const std::string& path, const std::vector<std::string>& options = {}) {
  static const TestFolder folder;
  static std::map<std::vector<std::string>, std::string> made;
  std::string& file = made[options];
  if (file.empty()) {
    file = folder / cat(made.size(), ".pt");
    std::vector<std::string> command = {"make-checkpoint", "--output", file};
    command.insert(command.end(), options.begin(), options.end());
    const ProcessResult result = run_process(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  std::filesystem::copy_file(file, path, std::filesystem::copy_options::overwrite_existing);
}

}  // namespace retina
