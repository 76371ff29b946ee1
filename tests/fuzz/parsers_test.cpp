#include "tests/fuzz/parsers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "shared/base/file.h"
#include "tests/fuzz/mutate.h"

namespace retina {
namespace {

class Parsers : public testing::TestWithParam<FuzzedParser> {
 protected:
  // The kept inputs: seeds, and what was ever found.
  static std::vector<std::string> corpus() {
    std::vector<std::string> paths, inputs;
    const std::string folder =
        std::string(RETINA_SOURCE_DIR "/tests/fuzz/corpus/") + GetParam().name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) inputs.push_back(read_file(path));
    return inputs;
  }
};

TEST_P(Parsers, AcceptOrRefuseTheKeptCorpus) {
  ASSERT_FALSE(corpus().empty());
  for (const std::string& input : corpus()) EXPECT_NO_THROW(GetParam().run(input)) << input;
}

TEST_P(Parsers, AcceptOrRefuseItCutAtAnyPlace) {
  for (const std::string& input : corpus()) {
    const std::size_t step = std::max<std::size_t>(1, input.size() / 200);
    for (std::size_t size = 0; size < input.size(); size += step) {
      EXPECT_NO_THROW(GetParam().run(std::string_view(input).substr(0, size))) << size;
    }
  }
}

TEST_P(Parsers, AcceptOrRefuseItDamagedAtRandom) {
  const std::vector<std::string> inputs = corpus();
  for (std::uint32_t run = 0; run < 1000; ++run) {
    Dice dice(1, run);
    std::string damaged = inputs[dice.below(inputs.size())];
    mutate(damaged, dice, inputs, {"-1", "1e308", "NaN", "\"", "\xff\xff\xff\x7f"});
    EXPECT_NO_THROW(GetParam().run(damaged)) << "run " << run;
  }
}

INSTANTIATE_TEST_SUITE_P(, Parsers, testing::ValuesIn(fuzzed_parsers()),
                         [](const auto& parser) { return std::string(parser.param.name); });

}  // namespace
}  // namespace retina
