// Sets for classification are packed to the same bytes whatever happens, and damage to them is
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "preprocess/verify.h"
#include "shared/base/random.h"
#include "tests/preprocess/packed_before.h"
#include "tests/preprocess/small_classes.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class PackedClasses : public testing::TestWithParam<AnnotationFormat> {
 protected:
  PackedClasses() {
    SmallFolders{folder_.path()}.write();
    SmallCifar10{folder_.path()}.write();
    pack(options("whole"));
    whole_ = folder_content(folder_ / "whole");
  }

  PackOptions options(const std::string& name) const {
    return GetParam() == AnnotationFormat::kFolders ? SmallFolders{folder_.path()}.options(name)
                                                    : SmallCifar10{folder_.path()}.options(name);
  }

  TestFolder folder_;
  std::map<std::string, std::string> whole_{};
};

TEST_P(PackedClasses, TheSameBytesWhateverTheThreads) {
  PackOptions other = options("set");
  other.threads = 7;
  pack(other);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

TEST_P(PackedClasses, AnInterruptedRunReusesItsShardsAndGivesTheSameBytes) {
  for (const std::size_t shards : {std::size_t{1}, std::size_t{2}}) {
    fs::remove_all(folder_ / "set");
    leave_finished(ShardSet(folder_ / "whole"), folder_ / "set", shards);
    EXPECT_EQ(pack(options("set")).reused_shards, shards);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
  }
}

TEST_P(PackedClasses, VerifyFindsFlippedBitsAndCutFiles) {
  std::string problems;
  const auto problem_count = [&] {
    problems.clear();
    return verify_shards({.folder = folder_ / "whole",
                          .thread_count = 2,
                          .on_problem = [&](const auto& line) { problems += line + "\n"; }})
        .problem_count;
  };
  EXPECT_EQ(problem_count(), 0) << problems;
  const RandomStream random{.seed = 7, .use = RandomUse::kTest};
  std::uint64_t draw = 0;
  for (const auto& [name, bytes] : whole_) {
    if (name == ".lock" || name == "report.html") continue;
    const std::string path = folder_ / "whole/" + name;
    for (int i = 0; i < 12 && !bytes.empty(); ++i) {
      std::string damaged = bytes;
      const std::uint64_t bit = random.below(draw++, bytes.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      write_bytes(path, damaged);
      EXPECT_GT(problem_count(), 0) << name << " bit " << bit;
      EXPECT_THAT(problems, HasSubstr(name));
    }
    for (const std::size_t size : {bytes.size() - 1, bytes.size() / 3}) {
      if (bytes.empty()) continue;
      write_bytes(path, bytes.substr(0, size));
      EXPECT_GT(problem_count(), 0) << name;
    }
    fs::remove(path);
    EXPECT_GT(problem_count(), 0) << name;
    write_bytes(path, bytes);
  }
  EXPECT_EQ(problem_count(), 0) << problems;
}

INSTANTIATE_TEST_SUITE_P(, PackedClasses,
                         testing::Values(AnnotationFormat::kFolders, AnnotationFormat::kCifar10),
                         [](const auto& format) {
                           return word_of(kAnnotationFormats, format.param);
                         });

}  // namespace
}  // namespace retina
