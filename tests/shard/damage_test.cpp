// Every file of a set cut, missing or with a flipped bit: an Error, never a crash or wrong data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shared/base/file.h"
#include "shared/numeric/random.h"
#include "shared/shard/shard_file.h"
#include "shared/shard/shard_set.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr std::size_t kRecordCount = 40;

class Damage : public testing::Test {
 protected:
  Damage() { write_small_set(folder_ / "set", kRecordCount, 150'000); }

  // Reads everything; records that are read must be the right ones.
  void read_all() const {
    const ShardSet set(folder_ / "set");
    for (std::size_t i = 0; i < set.index().size(); ++i) {
      const Record record = set.read(i);
      std::string storage;
      ASSERT_EQ(record.image, small_record(i, record.image.size(), storage).image);
    }
  }

  TestFolder folder_;
};

TEST_F(Damage, EveryTruncatedFileIsNamedAtOpen) {
  const RandomStream random{.seed = 1};
  std::uint64_t draw = 0;
  for (const std::string& name : file_names(folder_ / "set")) {
    const std::string path = folder_ / "set/" + name, bytes = read_file(path);
    for (int i = 0; i < 10; ++i) {
      const std::size_t size = random.below(draw++, bytes.size());
      write_plain_file(path, bytes.substr(0, size));
      std::string message;
      EXPECT_EQ(error_kind([&] { ShardSet(folder_ / "set"); }, &message), ErrorKind::kData);
      EXPECT_THAT(message, HasSubstr(name));
    }
    write_plain_file(path, bytes);
  }
}

TEST_F(Damage, EveryMissingFileIsNamedAtOpen) {
  for (const std::string& name : file_names(folder_ / "set")) {
    const std::string path = folder_ / "set/" + name;
    std::filesystem::rename(path, folder_ / "elsewhere");
    std::string message;
    EXPECT_EQ(error_kind([&] { ShardSet(folder_ / "set"); }, &message), ErrorKind::kNoInput);
    EXPECT_THAT(message, HasSubstr(name));
    std::filesystem::rename(folder_ / "elsewhere", path);
  }
}

TEST_F(Damage, AFlippedBitNeverCrashesNorChangesARecord) {
  const RandomStream random{.seed = 2};
  std::uint64_t draw = 0;
  int found = 0;
  for (const std::string& name : file_names(folder_ / "set")) {
    const std::string path = folder_ / "set/" + name, bytes = read_file(path);
    for (int i = 0; i < 25; ++i) {
      const std::uint64_t bit = random.below(draw++, bytes.size() * 8);
      flip_bit(path, bit);
      try {
        read_all();  // damage in unused bytes or in the quarantine list goes unseen here
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << name << " bit " << bit;
        ++found;
      }
      write_plain_file(path, bytes);
    }
  }
  EXPECT_GT(found, 80);
}

TEST_F(Damage, EveryBitOfLmdbsOwnPagesIsCheckedBeforeLmdbSeesThem) {
  const Manifest manifest = read_manifest(folder_ / "set");
  const ManifestShard& shard = manifest.shards[0];
  const std::string path = folder_ / "set/" + shard.file.name, bytes = read_file(path);
  // Page 0 and 1 are LMDB's meta pages; the first 16 bytes of every page are its header.
  for (std::size_t byte = 0; byte < 2 * 4096; byte += 41) {
    flip_bit(path, 8 * byte + byte % 8);
    EXPECT_EQ(error_kind([&] { ShardFile(folder_ / "set", shard); }), ErrorKind::kData) << byte;
    write_plain_file(path, bytes);
  }
}

TEST_F(Damage, ADamagedRecordIsNamedByShardAndPlace) {
  const ShardSet set(folder_ / "set");
  const std::string name = set.manifest().shards[0].file.name;
  const std::string bytes = read_file(folder_ / "set/" + name);
  const std::size_t place = 5;  // 30 kB: in pages of its own
  const std::size_t at = bytes.find(set.read(place).image);
  ASSERT_NE(at, std::string::npos);
  flip_bit(folder_ / "set/" + name, 8 * (at + 20'000));
  const ShardSet damaged(folder_ / "set");
  std::string message;
  EXPECT_EQ(error_kind([&] { (void)damaged.read(place); }, &message), ErrorKind::kData);
  EXPECT_THAT(message, HasSubstr(name + ": record 5: content is damaged"));
  EXPECT_EQ(damaged.read(place + 1).image_id, damaged.index()[place + 1].image_id);
}

TEST_F(Damage, FilesOfTwoSetsDoNotMix) {
  write_small_set(folder_ / "other", kRecordCount - 1, 150'000);
  std::filesystem::copy_file(folder_ / "other/index.bin", folder_ / "set/index.bin",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(error_kind([&] { ShardSet(folder_ / "set"); }), ErrorKind::kData);
}

TEST_F(Damage, ASwappedShardIsFound) {
  const Manifest manifest = read_manifest(folder_ / "set");
  ManifestShard shard = manifest.shards[1];
  shard.file.name = manifest.shards[0].file.name;
  shard.file.size_bytes = manifest.shards[0].file.size_bytes;
  EXPECT_EQ(error_kind([&] { ShardFile(folder_ / "set", shard); }), ErrorKind::kData);
}

}  // namespace
}  // namespace retina
