// Reads and writes the format byte by byte as FORMAT.md describes it, without the library's own
// encoders: what a stranger would do.
#include <gtest/gtest.h>
#include <lmdb.h>

#include <bit>
#include <cstring>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/record.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

std::string le(std::uint64_t value, int byte_count) {
  std::string bytes;
  for (int i = 0; i < byte_count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}
std::string le_f64(double value) {
  return le(std::bit_cast<std::uint64_t>(value), 8);
}

// A record of an image of `width` x `height` with these two parts.
std::string hand_made_record(int version, int flags, std::uint64_t id, int width, int height,
                             const std::string& annotations, const std::string& image) {
  std::string header = "RREC" + le(static_cast<std::uint64_t>(version), 2) +
                       le(static_cast<std::uint64_t>(flags), 2) + le(id, 8) +
                       le(static_cast<std::uint64_t>(width), 4) +
                       le(static_cast<std::uint64_t>(height), 4) + le(annotations.size(), 4) +
                       le(image.size(), 4);
  header += le(xxh3(annotations + image), 8);
  header += le(xxh3(header), 8);
  return header + annotations + image;
}

TEST(Format, ARecordBuiltByHandDecodes) {
  const std::string content = le(static_cast<std::uint64_t>(-3), 8) + le_f64(1.5) + le_f64(-2.25) +
                              le_f64(30) + le_f64(0.1) + le_f64(3.0000000001) + le(2, 4) + le(1, 4);
  const std::string name = le(3, 4) + le(8, 4) + "a/\xc3\xa9.jpg";
  const std::string jpeg = "\xff\xd8 a photograph \xff\xd9";
  const std::string bytes =
      hand_made_record(1, 1, 12345678901, 640, 480, le(1, 4) + le(56, 4) + content + name, jpeg);
  const Record record = decode_record(bytes, "r");
  EXPECT_EQ(record.image_id, 12345678901);
  EXPECT_EQ(record.file_name, "a/é.jpg");
  EXPECT_EQ(record.width, 640);
  EXPECT_EQ(record.height, 480);
  EXPECT_TRUE(record.rescaled);
  EXPECT_EQ(record.image, jpeg);
  ASSERT_EQ(record.annotations.size(), 1U);
  const RecordAnnotation& box = record.annotations[0];
  EXPECT_EQ(box.id, -3);
  EXPECT_EQ(box.bbox, (std::array<double, 4>{1.5, -2.25, 30, 0.1}));
  EXPECT_EQ(box.area, 3.0000000001);
  EXPECT_EQ(box.label, 2);
  EXPECT_TRUE(box.iscrowd);
  EXPECT_EQ(encode_record(record), bytes) << "the library writes the same bytes";
}

TEST(Format, ARecordOfRawPixelsAndOneWithAClassBuiltByHandDecode) {
  const std::string pixels = "abcdef";
  const std::string raw = hand_made_record(2, 4 + 2, 7, 2, 1, le(1, 4) + le(0, 4), pixels);
  const Record record = decode_record(raw, "r");
  EXPECT_EQ(record.encoding, ImageEncoding::kRaw);
  EXPECT_TRUE(record.converted);
  EXPECT_EQ(record.image, pixels);
  EXPECT_EQ(encode_record(record), raw);
  const std::string bytes =
      hand_made_record(1, 0, 7, 32, 30, le(2, 4) + le(4, 4) + le(517, 4), "\xff\xd8 \xff\xd9");
  const Record classified = decode_record(bytes, "r");
  EXPECT_EQ(classified.label, 517);
  EXPECT_TRUE(classified.annotations.empty());
  EXPECT_EQ(encode_record(classified), bytes);
}

TEST(Format, AnIndexBuiltByHandDecodes) {
  const std::string entry = le(static_cast<std::uint64_t>(-9), 8) + le(640, 4) + le(480, 4) +
                            le(7, 4) + le(5, 4) + le(1, 4) + le(3, 4);
  const std::string head = "RIDX" + le(6, 2) + le(32, 2) + le(1, 8);
  const std::string labels = le(2, 4) + le(0, 4) + le(6, 4), name = le(5, 4) + "a.jpg";
  const std::string content = entry + labels + name + le(0x1122334455667788, 8);
  const std::string bytes = head + le(xxh3(head + content), 8) + content;
  const std::vector<int> want_labels{0, 6};
  IndexEntry want{.image_id = -9,
                  .width = 640,
                  .height = 480,
                  .box_count = 7,
                  .trainable_count = 5,
                  .shard = 1,
                  .place = 3,
                  .labels = want_labels,
                  .file_name = "a.jpg",
                  .image_xxh3 = 0x1122334455667788};
  ASSERT_EQ(decode_index(bytes, "i").size(), 1U);
  EXPECT_EQ(decode_index(bytes, "i")[0], want);
  EXPECT_EQ(encode_index({want}), bytes);
  // Those of earlier builds, which had less, are to be packed again.
  for (const std::uint64_t version : {0, 1, 5}) {
    const std::string old_head = "RIDX" + le(version, 2) + le(32, 2) + le(1, 8);
    try {
      decode_index(old_head + le(xxh3(old_head + entry), 8) + entry, "i");
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_EQ(
          std::string(error.what()),
          cat("i: was written by an earlier version (got index version ", version, ", want 6)"));
      EXPECT_EQ(error.hint(), "pack the data again: coco-pack with --overwrite");
    }
  }
}

TEST(Format, AShardIsAPlainLmdbFileWithBigEndianKeys) {
  const TestFolder folder;
  write_small_set(folder / "set", 20, 1 << 30);
  const std::string path = folder / "set/shard-00000-of-00001.lmdb";
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  const char key_bytes[8] = {0, 0, 0, 0, 0, 0, 0, 13};
  MDB_val key{.mv_size = 8, .mv_data = const_cast<char*>(key_bytes)}, value{};
  ASSERT_EQ(mdb_get(txn, dbi, &key, &value), 0);
  std::string storage;
  const std::string want = encode_record(small_record(13, 1500 + 13, storage));
  EXPECT_EQ(std::string(static_cast<char*>(value.mv_data), value.mv_size), want);
  mdb_txn_abort(txn);
  mdb_env_close(env);
}

TEST(Format, TheManifestEndsWithTheHashOfItsOwnText) {
  std::string text = encode_manifest({});
  const std::size_t at = text.size() - 4 - 16;  // digits, then: quote, newline, brace, newline
  const std::string digits = text.substr(at, 16);
  text.replace(at, 16, 16, '0');
  EXPECT_EQ(digits, hex64(xxh3(text)));
}

}  // namespace
}  // namespace retina
