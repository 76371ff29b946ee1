// Sets for classification are packed to the same bytes whatever happens, and damage to them is
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "preprocess/pack_journal.h"
#include "preprocess/packer.h"
#include "preprocess/source_images.h"
#include "preprocess/verify.h"
#include "shared/base/file.h"
#include "shared/base/random.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

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

  void interrupt_after(std::size_t shards) const {
    fs::remove_all(folder_ / "set");
    make_folder(folder_ / "set");
    const ShardSet set(folder_ / "whole");
    const PackJournal journal(folder_ / "set", set.manifest(), false);
    const ReadAnnotations read = read_annotations(options("").annotation_source());
    const SourceImages images(options("").images_folder(), GetParam());
    std::size_t next_image = 0;
    for (std::size_t shard = 0; shard < shards; ++shard) {
      FinishedShard note{.shard = set.manifest().shards[shard]};
      fs::copy_file(folder_ / "whole/" + note.shard.file.name,
                    journal_shard_path(folder_ / "set", shard));
      for (std::int64_t place = 0; place < note.shard.record_count; ++place, ++next_image) {
        const auto image = static_cast<std::size_t>(set.index()[next_image].image_id - 1);
        SourceImage source;
        ASSERT_FALSE(images.read(read.instances.images[image].file_name, source));
        note.sources.push_back(source.file);
      }
      note.next = {.image = next_image};
      note.shard.file.name.clear();
      journal.add(shard, note);
    }
  }

  // The file that holds the first image of the set.
  std::string first_file() const {
    const auto image =
        static_cast<std::size_t>(ShardSet(folder_ / "whole").index()[0].image_id - 1);
    const std::string name =
        read_annotations(options("").annotation_source()).instances.images[image].file_name;
    return options("").images_folder() + "/" + name.substr(0, name.rfind(':'));
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
    interrupt_after(shards);
    EXPECT_EQ(pack(options("set")).reused_shards, shards);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
  }
}

TEST_P(PackedClasses, CopiedFilesAreTheSameImages) {
  interrupt_after(2);
  const std::string file = first_file(), content = read_file(file);
  fs::remove(file);
  write_file_atomically(file, content);
  fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(pack(options("set")).reused_shards, 2U);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
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
