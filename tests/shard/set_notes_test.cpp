#include "shared/shard/set_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kCat[] = {0}, kDog[] = {1}, kX[] = {2};

IndexEntry entry(std::int64_t id, std::uint64_t hash, std::span<const int> labels = {}) {
  const auto boxes = static_cast<std::uint32_t>(labels.size());
  return {.image_id = id,
          .width = 9,
          .height = 9,
          .box_count = boxes,
          .trainable_count = boxes,
          .place = static_cast<std::uint32_t>(id),
          .labels = labels,
          .image_xxh3 = hash};
}

class SetNotes : public testing::Test {
 protected:
  // A set with these entries in its index, which has a record for each; ids are places from 0 on.
  ShardSet set(const std::string& name, const ImageIndex& index) const {
    const std::string folder = folder_ / name;
    write_small_set(folder, index.size(), 1 << 30);
    Manifest manifest = read_manifest(folder);
    const std::string bytes = encode_index(index);
    write_file_atomically(folder + "/index.bin", bytes);
    manifest.index.size_bytes = bytes.size();
    manifest.index.xxh3 = xxh3(bytes);
    write_file_atomically(folder + "/manifest.json", encode_manifest(manifest));
    return ShardSet(folder);
  }

  std::vector<std::string> notes(const ImageIndex& train, const ImageIndex& validation) const {
    const std::vector<ShardSet> sets = [&] {
      std::vector<ShardSet> list;
      list.push_back(set("train", train));
      return list;
    }();
    return validation_notes(sets, set("validation", validation));
  }

  const TestFolder folder_;
};

TEST_F(SetNotes, OfAHealthySetAndAHealthyPairAreNone) {
  EXPECT_THAT(set_notes({.counts = {.images = 3, .boxes = 2, .trainable = 1}}), IsEmpty());
  EXPECT_THAT(set_notes({.task = Task::kClassification}), IsEmpty());
  EXPECT_THAT(notes({entry(0, 7, kCat), entry(1, 8)}, {entry(0, 9, kCat)}), IsEmpty());
}

TEST_F(SetNotes, ThoseOfPackingAreKeptAndAreOneLine) {
  const Manifest packed{.task = Task::kClassification,
                        .notes = {"2 boxes\nrepeat", "an area"},
                        .index = {.name = kIndexFile, .size_bytes = 24},
                        .quarantine = {.name = kQuarantineFile}};
  const Manifest read = decode_manifest(encode_manifest(packed), "m");
  EXPECT_THAT(read.notes, ElementsAre("2 boxes\\nrepeat", "an area"));
  EXPECT_EQ(set_notes(read), read.notes);
}

TEST_F(SetNotes, ASetWithoutAnyBoxIsTold) {
  EXPECT_THAT(set_notes({.counts = {.images = 3, .crowds = 2}}),
              ElementsAre(HasSubstr("no image has a box to train on")));
}

TEST_F(SetNotes, ImagesThatBothSetsHaveAreTold) {
  const std::vector<std::string> got =
      notes({entry(0, 7, kCat), entry(1, 8)}, {entry(0, 9, kCat), entry(1, 7), entry(2, 7)});
  ASSERT_EQ(got.size(), 1U);
  EXPECT_THAT(
      got[0],
      HasSubstr(cat("2 of 3 images are also trained on, byte for byte (first: image 1 is image "
                    "0 of ",
                    folder_ / "train", ")")));
  // Empty tiles look the same.
  IndexEntry tile = entry(0, 7);
  tile.tile = TilePlace{.image_width = 9, .image_height = 9};
  EXPECT_THAT(notes({tile}, {tile}), IsEmpty());
}

TEST_F(SetNotes, ClassesOnOneSideAloneAreTold) {
  EXPECT_THAT(notes({entry(0, 1, kCat), entry(1, 2, kDog)}, {entry(0, 3, kCat), entry(1, 4, kX)}),
              ElementsAre("1 class is validated but not trained on: x",
                          "1 class is trained on but not validated: dog"));
  // A side without any box has a note of its own.
  EXPECT_THAT(notes({entry(0, 1, kCat)}, {entry(0, 3)}), IsEmpty());
}

}  // namespace
}  // namespace retina
