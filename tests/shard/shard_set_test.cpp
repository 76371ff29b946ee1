#include "shared/shard/shard_set.h"

#include <gmock/gmock.h>
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
    const Record want = small_record(i, record.image.size(), storage);
    EXPECT_EQ(record.image_id, want.image_id);
    EXPECT_EQ(record.image, want.image);
    EXPECT_EQ(record.annotations.size(), set.index()[i].box_count);
  }
}

TEST(ShardSet, OfAClassificationSetGivesEveryRecordItsClass) {
  const TestFolder folder;
  write_small_set(folder / "set", 7, 100'000, Task::kClassification);
  const ShardSet set(folder / "set");
  EXPECT_EQ(set.manifest().label_counts, (std::vector<std::int64_t>{3, 2, 2}));
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(set.read(i).label, static_cast<int>(i % 3));
    EXPECT_THAT(set.index()[i].labels, testing::ElementsAre(i % 3));
  }
}

TEST(ShardSet, RefusesRecordsAndIndexesOfAnotherTask) {
  Manifest boxes;
  boxes.categories = {{.id = 1, .name = "cat"}};
  boxes.counts.images = 1;
  boxes.shards = {{.file = {.name = "s"}, .record_count = 1}};
  Manifest classes = boxes;
  classes.task = Task::kClassification;
  const std::vector<int> first{0}, second{1};
  const IndexEntry with_box{.image_id = 1,
                            .width = 2,
                            .height = 2,
                            .box_count = 1,
                            .trainable_count = 1,
                            .labels = first};
  const IndexEntry with_class{.image_id = 1, .width = 2, .height = 2, .labels = first};
  const IndexEntry with_neither{.image_id = 1, .width = 2, .height = 2};
  const auto is_good = [](const IndexEntry& entry, const Manifest& manifest) {
    try {
      check_index({entry}, manifest, "i");
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      return false;
    }
  };
  EXPECT_TRUE(is_good(with_box, boxes));
  EXPECT_TRUE(is_good(with_neither, boxes));
  EXPECT_FALSE(is_good(with_class, boxes));
  EXPECT_TRUE(is_good(with_class, classes));
  EXPECT_FALSE(is_good(with_box, classes));
  EXPECT_FALSE(is_good(with_neither, classes));

  const Record record{.image_id = 1, .width = 2, .height = 2, .label = 0, .image = "p"};
  const std::string bytes = encode_record(record), folder = "f";
  EXPECT_EQ(decode_indexed_record(bytes, with_class, {folder, classes}).label, 0);
  const auto decode = [&](const IndexEntry& entry, const Manifest& manifest) {
    decode_indexed_record(bytes, entry, {folder, manifest});
  };
  EXPECT_EQ(error_kind([&] { decode(with_neither, boxes); }), ErrorKind::kData);
  const IndexEntry another{.image_id = 1, .width = 2, .height = 2, .labels = second};
  std::string message;
  EXPECT_EQ(error_kind([&] { decode(another, classes); }, &message), ErrorKind::kData);
  EXPECT_EQ(message, "f/s: record 0: its class is not that of the index (image 1)");
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
  EXPECT_EQ(first.image, set.read(0).image);
}

}  // namespace
}  // namespace retina
