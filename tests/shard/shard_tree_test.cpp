// Pages of LMDB that somebody made: right hashes, wrong offsets. Run under AddressSanitizer, too:
// the file lies in memory of its own size.
#include "shared/shard/shard_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "shared/base/file.h"
#include "shared/numeric/random.h"
#include "shared/shard/manifest.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr std::size_t kPageBytes = 4096, kTreeRecordCount = 300;

class ShardTree : public testing::Test {
 protected:
  // Enough small records for a root with several leaves, and some on overflow pages.
  ShardTree() {
    write_small_set(folder_ / "set", kTreeRecordCount, 64 << 20);
    const std::string content = read_file(folder_ / ("set/" + shard_file_name(0, 1)));
    file_.assign(content.begin(), content.end());
    for (std::size_t page = 0; page < file_.size() / kPageBytes; ++page) {
      const std::size_t flags = u16(page * kPageBytes + 10);
      if (flags == 1) branches_.push_back(page);
      if (flags == 2) leaves_.push_back(page);
    }
  }

  std::size_t u16(std::size_t at) const {
    std::uint16_t value = 0;
    std::memcpy(&value, &file_[at], sizeof(value));
    return value;
  }
  template <class T>
  void put(std::size_t at, T value) {
    std::memcpy(&file_[at], &value, sizeof(value));
  }
  // Where node `number` of a page begins.
  std::size_t node(std::size_t page, std::size_t number) const {
    return page * kPageBytes + u16(page * kPageBytes + 16 + 2 * number);
  }

  std::vector<std::string_view> list() const {
    return list_records({file_.data(), file_.size()}, "shard");
  }
  std::string refusal() const {
    std::string message;
    EXPECT_EQ(error_kind([&] { list(); }, &message), ErrorKind::kData);
    return message;
  }

  TestFolder folder_;
  std::vector<char> file_;
  std::vector<std::size_t> branches_, leaves_;
};

TEST_F(ShardTree, ListsEveryRecordInOrder) {
  ASSERT_FALSE(branches_.empty());
  ASSERT_GT(leaves_.size(), 2U);
  const auto records = list();
  ASSERT_EQ(records.size(), kTreeRecordCount);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record record = decode_record(records[i], "record");
    std::string storage;
    EXPECT_EQ(record.image, small_record(i, record.image.size(), storage).image);
  }
}

TEST_F(ShardTree, OffsetsThatLeadOutOfTheFileOrInCirclesAreRefused) {
  const std::vector<char> whole = file_;
  const auto expect_refusal = [&](const std::string& problem) {
    EXPECT_THAT(refusal(), HasSubstr(problem));
    file_ = whole;
  };
  put(node(leaves_[0], 0), std::uint32_t{0x7FFFFFFF});
  expect_refusal("record 0 outside");
  put(leaves_[0] * kPageBytes + 16, std::uint16_t{4090});
  expect_refusal("has a node outside it");
  put(node(leaves_[0], 0) + 6, std::uint16_t{4000});
  expect_refusal("lacks record 0");
  for (const int flags : {2, 4, 6, 3, 5, 0x8000}) {  // duplicates and databases inside
    put(node(leaves_[0], 0) + 4, static_cast<std::uint16_t>(flags));
    expect_refusal("record 0");
  }
  put(node(branches_[0], 0), static_cast<std::uint32_t>(branches_[0]));
  expect_refusal("is used twice");
  put(node(branches_[0], 1), std::uint64_t{0x0008'0000'0000'1000} >> 8);
  expect_refusal("lies outside the file");
}

// Random bytes, mostly in the headers and offsets of tree and meta pages.
TEST_F(ShardTree, NoDamageLeadsOutOfTheFile) {
  const RandomStream random{.seed = 3, .use = RandomUse::kTest};
  std::uint64_t drawn = 0;
  const auto below = [&](std::size_t bound) { return random.below(drawn++, bound); };
  const std::vector<char> whole = file_;
  std::vector<std::size_t> pages = {0, 1};
  pages.insert(pages.end(), branches_.begin(), branches_.end());
  pages.insert(pages.end(), leaves_.begin(), leaves_.end());
  int refused = 0, touched = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t page = pages[below(pages.size())];
    for (std::size_t change = 1 + below(4); change > 0; --change) {
      std::size_t at = page * kPageBytes + below(160);
      if (page > 1 && below(2) == 0) {
        const std::size_t count = (u16(page * kPageBytes + 12) - 16) / 2 % 200;
        at = std::min(node(page, below(count + 1)) + below(16), file_.size() - 8);
      }
      const std::uint64_t values[] = {0,
                                      1,
                                      below(256),
                                      below(65536),
                                      page,
                                      below(whole.size() / kPageBytes),
                                      0x7FFF,
                                      0xFFFFFFFF,
                                      ~std::uint64_t{0}};
      const std::uint64_t value = values[below(std::size(values))];
      std::memcpy(&file_[at], &value, std::size_t{1} << below(4));
    }
    try {
      for (const std::string_view record : list()) {
        ASSERT_GE(record.data(), file_.data());
        ASSERT_LE(record.data() + record.size(), file_.data() + file_.size());
        if (!record.empty()) touched += (record.front() == 'R') + (record.back() == 'R');
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kData) << error.what();
      ++refused;
    }
    std::memcpy(&file_[page * kPageBytes], &whole[page * kPageBytes], kPageBytes);
    if (round % 100 == 99) file_ = whole;
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_GT(touched, 0);
}

TEST_F(ShardTree, AFileCutAnywhereIsRefused) {
  const std::vector<char> whole = file_;
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(error_kind([&] {
                list_records({cut.data(), cut.size()}, "shard");
              }),
              ErrorKind::kData)
        << size;
  }
}

}  // namespace
}  // namespace retina
