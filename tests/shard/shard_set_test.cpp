#include "shared/shard/shard_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr std::size_t kRecordCount = 60;

TEST(ShardSet, GivesEveryRecordOfEveryShard) {
  const TestFolder folder;
  write_small_set(folder / "set", kRecordCount, 100'000);
  const ShardSet set(folder / "set");
  EXPECT_GT(set.manifest().shards.size(), 3U);
  ASSERT_EQ(set.index().size(), kRecordCount);
  for (std::size_t i = 0; i < kRecordCount; ++i) {
    const Record record = set.read(i);
    std::string storage;
    const Record want = small_record(i, record.picture.size(), storage);
    EXPECT_EQ(record.image_id, want.image_id);
    EXPECT_EQ(record.picture, want.picture);
    EXPECT_EQ(record.annotations.size(), set.index()[i].box_count);
  }
}

TEST(ShardSet, ManyThreadsReadAtOnceAndViewsOutliveAMove) {
  const TestFolder folder;
  write_small_set(folder / "set", kRecordCount, 100'000);
  ShardSet opened(folder / "set");
  const Record first = opened.read(0);
  const ShardSet set = std::move(opened);
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 3 * kRecordCount; ++i) {
        const std::size_t place = (i * 7 + t * 13) % kRecordCount;
        good += set.read(place).image_id == set.index()[place].image_id ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4 * 3 * static_cast<int>(kRecordCount));
  EXPECT_EQ(first.picture, set.read(0).picture);
}

TEST(ShardSet, TwoSetsOfOneFolderCanBeOpen) {
  const TestFolder folder;
  write_small_set(folder / "set", 5, 100'000);
  const ShardSet first(folder / "set"), second(folder / "set");
  EXPECT_EQ(first.read(3).picture, second.read(3).picture);
}

}  // namespace
}  // namespace retina
