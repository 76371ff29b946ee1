#include "preprocess/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/numeric/random.h"
#include "shared/shard/image_index.h"
#include "shared/shard/record.h"
#include "shared/shard/shard_set.h"
#include "shared/shard/shard_writer.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

class Verify : public testing::Test {
 protected:
  Verify() {
    const SmallCoco coco{.folder = folder_.path(), .with_bad_images = true};
    coco.write();
    pack(coco.options("set"));
    content_ = folder_content(set_);
    content_.erase(".lock");
    content_.erase("report.html");  // not a part of the set
  }

  VerifyResult verify() {
    problems_.clear();
    return verify_shards({.folder = set_, .thread_count = 2, .on_problem = [&](const auto& line) {
                            problems_ += line + "\n";
                          }});
  }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(set_ + "/" + name, std::ios::binary) << bytes;
  }

  TestFolder folder_;
  std::string set_ = folder_ / "set";
  std::map<std::string, std::string> content_;
  std::string problems_;
};

TEST_F(Verify, FindsFlippedBitsAndCutOrMissingFilesOfSetsOfAnyKind) {
  const RandomStream random{.seed = 7};
  std::uint64_t draw = 0;
  const SmallFolders folders{folder_ / "f"};
  const SmallCifar10 cifar10{folder_ / "c"};
  folders.write();
  cifar10.write();
  pack(folders.options("set"));
  pack(cifar10.options("set"));
  for (const char* set : {"set", "f/set", "c/set"}) {
    set_ = folder_ / set;
    EXPECT_EQ(verify().problem_count, 0) << problems_;
    for (const auto& [name, bytes] : folder_content(set_)) {
      if (name == ".lock" || name == "report.html" || bytes.empty()) continue;
      std::vector<std::string> damaged{bytes.substr(0, bytes.size() - 1),
                                       bytes.substr(0, bytes.size() / 3)};
      for (int i = 0; i < 15; ++i) {
        const std::uint64_t bit = random.below(draw++, bytes.size() * 8);
        std::string& flipped = damaged.emplace_back(bytes);
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      }
      for (std::size_t i = 0; i < damaged.size(); ++i) {
        write(name, damaged[i]);
        EXPECT_GT(verify().problem_count, 0) << name << ", damage " << i;
        EXPECT_THAT(problems_, HasSubstr(name));
      }
      std::filesystem::remove(set_ + "/" + name);
      EXPECT_GT(verify().problem_count, 0) << name;
      write(name, bytes);
    }
    EXPECT_EQ(verify().problem_count, 0) << problems_;
  }
}

TEST_F(Verify, NamesTheDamagedRecord) {
  const auto& [name, bytes] = *std::next(content_.begin(), 3);  // the first shard
  ASSERT_THAT(name, HasSubstr("shard-00000"));
  // The middle of a record that has pages of its own.
  const ShardSet set(set_);
  std::size_t place = 0;
  while (set.read(place).image.size() < 10'000) ++place;
  const std::size_t at = bytes.find(set.read(place).image.substr(0, 6000)) + 5000;
  ASSERT_LT(at, bytes.size());
  std::string damaged = bytes;
  damaged[at] = static_cast<char>(damaged[at] ^ 1);
  write(name, damaged);
  verify();
  EXPECT_THAT(problems_,
              HasSubstr(cat(name, ": record ", place, " (", set.index()[place].file_name, ")")));
}

TEST_F(Verify, FindsARecordThatIsWholeButWrong) {
  // A shard with right hashes whose JPEG does not decode: only reading it tells.
  Manifest manifest = read_manifest(set_);
  manifest.shards.resize(1);
  const Record bad{.image_id = 1, .width = 10, .height = 10, .image = "no JPEG"};
  const std::string shard = shard_file_name(0, 1);
  ShardWriter writer(set_ + "/" + shard, 1 << 20);
  writer.append(encode_record(bad));
  manifest.shards[0] = writer.finish();
  manifest.shards[0].file.name = shard;
  const std::string index =
      encode_index({{.image_id = 1, .width = 10, .height = 10, .image_xxh3 = xxh3(bad.image)}});
  write("index.bin", index);
  manifest.index.size_bytes = index.size();
  manifest.index.xxh3 = xxh3(index);
  manifest.counts = {.images = 1, .images_without_boxes = 1, .quarantined = 7};
  manifest.label_counts.assign(manifest.categories.size(), 0);
  manifest.box_sizes.clear();
  write("manifest.json", encode_manifest(manifest));
  EXPECT_EQ(verify().problem_count, 1) << problems_;
  EXPECT_THAT(problems_, HasSubstr(shard + ": record 0: the image of image"));
}

TEST_F(Verify, FindsAnImageThatIsThereTwice) {
  const ShardSet set(set_);
  std::vector<IndexEntry> entries(set.index().begin(), set.index().end());
  const std::int64_t id = entries[3].image_id;
  entries[7].image_id = id;
  Manifest manifest = set.manifest();
  const std::string index = encode_index(ImageIndex(entries));
  write("index.bin", index);
  manifest.index.xxh3 = xxh3(index);
  write("manifest.json", encode_manifest(manifest));
  verify();
  EXPECT_THAT(problems_, HasSubstr(cat("index.bin: lists image ", id, " twice")));
}

TEST_F(Verify, ASetOfANewerVersionIsNotDamaged) {
  const auto said = [&] {
    try {
      verify();
    } catch (const Error& error) {
      return cat(exit_code(error.kind()), " ", error.what(), ", ", error.hint());
    }
    return problems_;
  };
  const auto newer = AllOf(HasSubstr("65 "), HasSubstr("newer version"), HasSubstr("update"));
  Manifest manifest = read_manifest(set_);
  std::string index = content_["index.bin"];
  index[4] = static_cast<char>(kIndexVersion + 1);
  write("index.bin", index);
  EXPECT_THAT((verify(), problems_), HasSubstr("index.bin: is damaged"));
  manifest.index.xxh3 = xxh3(index);
  write("manifest.json", encode_manifest(manifest));
  EXPECT_THAT(said(), newer);
  std::string text = content_["manifest.json"];
  const std::string version = "\"version\": 3";
  text.replace(text.find(version), version.size(), "\"version\": 4");
  write("manifest.json", text);
  EXPECT_THAT(said(), newer);
}

TEST_F(Verify, FindsCountsAndSizesOfOtherBoxes) {
  const Manifest whole = read_manifest(set_);
  ASSERT_GT(whole.counts.degenerate, 0);
  ASSERT_FALSE(whole.box_sizes.empty());
  Manifest more = whole, larger = whole;
  more.counts.degenerate -= 1;
  more.counts.trainable += 1;
  auto size = larger.box_sizes.extract(larger.box_sizes.begin());
  size.key().width -= 1;
  larger.box_sizes.insert(std::move(size));
  for (const Manifest& other : {more, larger}) {
    write("manifest.json", encode_manifest(other));
    EXPECT_EQ(verify().problem_count, 1) << problems_;
    EXPECT_THAT(problems_, HasSubstr("its counts are not those of the records"));
  }
  write("manifest.json", encode_manifest(whole));
  EXPECT_EQ(verify().problem_count, 0) << problems_;
}

}  // namespace
}  // namespace retina
