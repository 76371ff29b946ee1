#include "shared/shard/image_index.h"

#include <gtest/gtest.h>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr int kLabels[] = {0, 70000};

ImageIndex some_entries() {
  return {{.image_id = 5,
           .width = 3,
           .height = 4,
           .box_count = 2,
           .file_name = "a/5.jpg",
           .image_xxh3 = 7},
          {.image_id = -5,
           .width = 30,
           .height = 40,
           .trainable_count = 2,
           .shard = 2,
           .place = 9,
           .labels = kLabels}};
}

TEST(ImageIndex, ReadsBackAsItWasWritten) {
  EXPECT_EQ(decode_index(encode_index(some_entries()), "i"), some_entries());
  EXPECT_TRUE(decode_index(encode_index({}), "i").empty());
}

ImageIndex tile_entries(const TilePlace& first = {
                            .x = 10, .y = 0, .image_width = 13, .image_height = 4}) {
  const ImageIndex entries = some_entries();
  IndexEntry a = entries[0], b = entries[1];
  a.tile = first;
  b.tile = {.x = 0, .y = 7, .image_width = 30, .image_height = 2147483647};
  return {a, b};
}

TEST(ImageIndex, OfTilesReadsBackAsItWasWritten) {
  EXPECT_EQ(decode_index(encode_index(tile_entries()), "i"), tile_entries());
  EXPECT_EQ(record_name(tile_entries()[0]), "record 0 (a/5.jpg, tile 3x4+10+0)");
}

TEST(ImageIndex, RejectsATileOutsideItsImage) {
  for (const TilePlace& tile : {TilePlace{.x = 11, .image_width = 13, .image_height = 4},
                                TilePlace{.y = 1, .image_width = 13, .image_height = 4},
                                TilePlace{.x = -1, .image_width = 13, .image_height = 4},
                                TilePlace{.image_width = 2, .image_height = 4}}) {
    EXPECT_EQ(error_kind([&] { decode_index(encode_index(tile_entries(tile)), "i"); }),
              ErrorKind::kData);
  }
}

TEST(ImageIndex, NamesAnImageByItsFileAndOneWithoutANameByItsId) {
  const ImageIndex entries = some_entries();
  EXPECT_EQ(image_name(entries[0]), "a/5.jpg (image 5)");
  EXPECT_EQ(image_name(entries[1]), "image -5");
  EXPECT_EQ(file_names_of(entries), (FileNames{{5, "a/5.jpg"}}));
}

TEST(ImageIndex, AnImageWithoutBoxesMayHaveOneClass) {
  const std::vector<int> one{999}, two{1, 2};
  IndexEntry entry{.image_id = 5, .width = 3, .height = 4, .labels = one};
  EXPECT_EQ(decode_index(encode_index({entry}), "i"), ImageIndex{entry});
  entry.labels = two;
  EXPECT_EQ(error_kind([&] { decode_index(encode_index({entry}), "i"); }), ErrorKind::kData);
}

TEST(ImageIndex, RejectsEveryFlippedBitAndTruncation) {
  for (const std::string& bytes : {encode_index(some_entries()), encode_index(tile_entries())}) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(error_kind([&] { decode_index(damaged, "i"); }), ErrorKind::kData) << "bit " << bit;
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(error_kind([&] { decode_index(bytes.substr(0, size), "i"); }), ErrorKind::kData);
    }
  }
}

}  // namespace
}  // namespace retina
