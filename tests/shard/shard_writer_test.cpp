#include "shared/shard/shard_writer.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "shared/base/file.h"
#include "shared/shard/shard_file.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

std::string some_bytes(std::uint64_t number, std::size_t size_bytes) {
  std::string storage;
  small_record(number, size_bytes, storage);
  return storage;
}

// Enough records for a branch page, several transactions and freed pages.
ManifestShard write_mixed_shard(const std::string& path) {
  ShardWriter writer(path, std::uint64_t{1} << 30);
  const std::string large = some_bytes(1, 900'000);
  for (std::uint64_t i = 0; i < 400; ++i) {
    writer.append(i % 10 == 0 ? large : some_bytes(i, 10 + 13 * i));
  }
  return writer.finish();
}

TEST(ShardWriter, BytesDoNotDependOnWhatMemoryHeldBefore) {
  const TestFolder folder;
  mallopt(M_PERTURB, 0x5a);  // malloc fills fresh memory with this
  const ManifestShard first = write_mixed_shard(folder / "a");
  mallopt(M_PERTURB, 0xc3);
  const ManifestShard second = write_mixed_shard(folder / "b");
  mallopt(M_PERTURB, 0);
  EXPECT_EQ(first.file.xxh3, second.file.xxh3);
  EXPECT_EQ(first.tree_xxh3, second.tree_xxh3);
  EXPECT_TRUE(read_file(folder / "a") == read_file(folder / "b"));
}

TEST(ShardWriter, EveryRecordReadsBack) {
  const TestFolder folder;
  ManifestShard shard = write_mixed_shard(folder / "a");
  shard.file.name = "a";
  const ShardFile file(folder.path(), shard);
  ASSERT_EQ(file.size(), 400U);
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::string want = i % 10 == 0 ? some_bytes(1, 900'000) : some_bytes(i, 10 + 13 * i);
    EXPECT_TRUE(file.bytes(i) == want) << i;
  }
}

TEST(ShardWriter, AnEmptyShardTakesARecordLargerThanTheLimit) {
  const TestFolder folder;
  const std::string huge = some_bytes(0, 100'000);
  ShardWriter writer(folder / "a", 1000);
  EXPECT_TRUE(writer.has_space(huge.size()));
  writer.append(huge);
  EXPECT_FALSE(writer.has_space(1));
  EXPECT_EQ(writer.finish().record_count, 1);
}

TEST(ShardWriter, AShardStaysNearItsLimit) {
  const TestFolder folder;
  constexpr std::uint64_t kLimit = 4 << 20;
  ShardWriter writer(folder / "a", kLimit);
  for (std::uint64_t i = 0; writer.has_space(2100); ++i) writer.append(some_bytes(i, 2100));
  EXPECT_LT(writer.finish().file.size_bytes, kLimit * 21 / 20);
}

TEST(ShardWriter, AShardBuiltElsewhereHasTheSameBytes) {
  const TestFolder folder;
  make_folder(folder / "local");
  make_folder(folder / "set");
  std::vector<ManifestShard> shards;
  for (const std::string& build_path : {std::string(), folder / "local/a"}) {
    ShardWriter writer(folder / (build_path.empty() ? "direct" : "set/a"), 1 << 20, build_path);
    for (std::uint64_t i = 0; i < 30; ++i) writer.append(some_bytes(i, 10 + 500 * i));
    EXPECT_TRUE(file_names(folder / "set").empty()) << "before it is finished";
    shards.push_back(writer.finish());
  }
  EXPECT_EQ(shards[0].file.xxh3, shards[1].file.xxh3);
  EXPECT_TRUE(read_file(folder / "direct") == read_file(folder / "set/a"));
  EXPECT_EQ(file_names(folder / "set"), std::vector<std::string>{"a"});
  EXPECT_TRUE(file_names(folder / "local").empty());
}

TEST(ShardWriter, LeavesNothingBehindWhenItIsNotFinished) {
  const TestFolder folder;
  {
    ShardWriter writer(folder / "a", 1 << 20);
    writer.append("abc");
  }
  EXPECT_TRUE(file_names(folder.path()).empty());
}

TEST(ShardWriter, AFolderThatIsNotThereCannotBeWritten) {
  const TestFolder folder;
  EXPECT_EQ(error_kind([&] { ShardWriter(folder / "none/a", 1 << 20); }), ErrorKind::kCannotCreate);
}

}  // namespace
}  // namespace retina
