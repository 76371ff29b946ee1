// Command lines that run a real program on a faulty file system (rules.h says what there is).
#pragma once

#include <string>
#include <vector>

namespace retina {

// The command with `rules` at work. `seen_file`: gets the number of calls that the first rule saw.
std::vector<std::string> faulty(const std::string& rules, std::vector<std::string> command,
                                const std::string& seen_file = "");

// How often `text` occurs: warnings are counted.
int count_of(const std::string& text, const std::string& in);

// False where a sanitizer's runtime must be loaded before any other library.
bool faults_work();

}  // namespace retina

// Skips the test, saying why.
#define RETINA_FAULTS_OR_SKIP()                               \
  if (!::retina::faults_work())                               \
  GTEST_SKIP() << "a sanitizer's runtime comes before other " \
                  "libraries"
