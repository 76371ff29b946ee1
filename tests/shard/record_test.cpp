#include "shared/shard/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shared/base/hash.h"
#include "shared/numeric/random.h"
#include "tests/shard/small_set.h"

namespace retina {
namespace {

using testing::HasSubstr;

void expect_equal(const Record& got, const Record& want) {
  EXPECT_EQ(got.image_id, want.image_id);
  EXPECT_EQ(got.file_name, want.file_name);
  EXPECT_EQ(got.width, want.width);
  EXPECT_EQ(got.height, want.height);
  EXPECT_EQ(got.rescaled, want.rescaled);
  EXPECT_EQ(got.converted, want.converted);
  EXPECT_EQ(got.encoding, want.encoding);
  EXPECT_EQ(got.label, want.label);
  EXPECT_EQ(got.image, want.image);
  ASSERT_EQ(got.annotations.size(), want.annotations.size());
  for (std::size_t i = 0; i < got.annotations.size(); ++i) {
    EXPECT_EQ(got.annotations[i].id, want.annotations[i].id);
    EXPECT_EQ(got.annotations[i].bbox, want.annotations[i].bbox);
    EXPECT_EQ(got.annotations[i].area, want.annotations[i].area);
    EXPECT_EQ(got.annotations[i].label, want.annotations[i].label);
    EXPECT_EQ(got.annotations[i].iscrowd, want.annotations[i].iscrowd);
  }
}

TEST(Record, ReadsBackAsItWasWritten) {
  for (std::uint64_t number = 0; number < 10; ++number) {
    std::string storage;
    Record record = small_record(number, 37 * number, storage);
    record.rescaled = number % 2 == 1;
    record.file_name = std::string(7 * number, 'n');
    const std::string bytes = encode_record(record);
    EXPECT_EQ(bytes.size(), record_size_bytes(record));
    expect_equal(decode_record(bytes, "r"), record);
  }
}

Record tile_record(std::string& storage) {
  Record record = small_record(5, 40, storage);
  record.file_name = "a/1.jpg";
  record.tile = {.x = 100, .y = 0, .image_width = 100 + record.width, .image_height = 5000};
  record.annotations.push_back({.id = 9, .bbox = {0, 1, 2, 3}, .area = 4, .is_partial = true});
  return record;
}

TEST(Record, OfATileReadsBackAsItWasWritten) {
  std::string storage;
  Record record = tile_record(storage);
  for (const bool is_first : {false, true}) {
    if (is_first) record.whole_annotations = {{.id = 9, .bbox = {100, 1, 20, 3}, .area = 60}};
    const std::string bytes = encode_record(record);
    EXPECT_EQ(bytes.size(), record_size_bytes(record));
    const Record read = decode_record(bytes, "r");
    expect_equal(read, record);
    EXPECT_EQ(read.tile, record.tile);
    EXPECT_TRUE(read.annotations.back().is_partial);
    ASSERT_EQ(read.whole_annotations.has_value(), is_first);
    if (!is_first) continue;
    ASSERT_EQ(read.whole_annotations->size(), 1U);
    EXPECT_EQ(read.whole_annotations->front().bbox, record.whole_annotations->front().bbox);
  }
}

TEST(Record, OfATileLiesInsideItsImage) {
  std::string storage;
  Record record = tile_record(storage);
  record.tile->x += 1;
  EXPECT_EQ(error_kind([&] { decode_record(encode_record(record), "r"); }), ErrorKind::kData);
}

Record raw_record(std::string& storage) {
  Record record = small_record(4, 5 * 4 * 3, storage);
  record.width = 5;
  record.height = 4;
  record.converted = true;
  record.encoding = ImageEncoding::kRaw;
  return record;
}

TEST(Record, OfRawPixelsReadsBackAsItWasWritten) {
  std::string storage;
  const Record record = raw_record(storage);
  expect_equal(decode_record(encode_record(record), "r"), record);
}

TEST(Record, OfRawPixelsHoldsAllOfThemAndNoMore) {
  std::string storage;
  Record record = raw_record(storage);
  record.height = 3;
  std::string message;
  EXPECT_EQ(error_kind([&] { decode_record(encode_record(record), "r"); }, &message),
            ErrorKind::kData);
  EXPECT_EQ(message, "r: raw image has a wrong length (got 60 bytes, want 45)");
}

Record classified_record(std::string& storage, int label = 2) {
  Record record = small_record(0, 60, storage);
  record.label = label;
  return record;
}

TEST(Record, WithAClassReadsBackAsItWasWritten) {
  std::string storage;
  for (const int label : {0, 999, std::numeric_limits<int>::max()}) {
    const Record record = classified_record(storage, label);
    const std::string bytes = encode_record(record);
    EXPECT_EQ(bytes.size(), record_size_bytes(record));
    expect_equal(decode_record(bytes, "r"), record);
  }
}

// `record` with these bytes as its annotation part; lengths and hashes follow suit.
std::string with_annotation_part(const Record& record, const std::string& part) {
  std::string bytes = encode_record(record);
  const auto store = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  bytes.replace(48, bytes.size() - 48 - record.image.size(), part);
  store(24, part.size(), 4);
  store(32, xxh3(std::string_view(bytes).substr(48)), 8);
  store(40, xxh3(std::string_view(bytes).substr(0, 40)), 8);
  return bytes;
}

TEST(Record, HasOneClassOfTheWholeImageAtMostAndThenNoBoxes) {
  using namespace std::string_literals;
  const std::string label = "\x02\0\0\0\x04\0\0\0\x07\0\0\0"s, boxes = "\x01\0\0\0\0\0\0\0"s;
  std::string storage;
  const Record record = small_record(0, 20, storage);
  EXPECT_EQ(decode_record(with_annotation_part(record, label), "r").label, 7);
  const auto problem = [&](const std::string& part) {
    std::string message;
    EXPECT_EQ(error_kind([&] { decode_record(with_annotation_part(record, part), "r"); }, &message),
              ErrorKind::kData);
    return message;
  };
  EXPECT_EQ(problem(label + label), "r: has more than one label block");
  EXPECT_EQ(problem(label + boxes), "r: has both boxes and a class of the whole image");
  EXPECT_EQ(problem(boxes + label), "r: has both boxes and a class of the whole image");
  EXPECT_EQ(problem("\x02\0\0\0\x03\0\0\0\x07\0\0"s),
            "r: label block has a wrong length (got 3 bytes, want 4)");
  EXPECT_EQ(problem("\x02\0\0\0\0\0\0\0"s),
            "r: label block has a wrong length (got 0 bytes, want 4)");
  EXPECT_EQ(problem("\x02\0\0\0\x04\0\0\0\0\0\0\x80"s),
            "r: class label is out of range (got 2147483648)");
}

TEST(Record, RejectsEveryFlippedBitTruncationAndExtraBytes) {
  std::string storage, raw_storage, classified_storage;
  for (const std::string& bytes :
       {encode_record(small_record(4, 60, storage)), encode_record(raw_record(raw_storage)),
        encode_record(classified_record(classified_storage))}) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(error_kind([&] { decode_record(damaged, "r"); }), ErrorKind::kData)
          << "bit " << bit;
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(error_kind([&] { decode_record(bytes.substr(0, size), "r"); }), ErrorKind::kData);
    }
    EXPECT_EQ(error_kind([&] { decode_record(bytes + "x", "r"); }), ErrorKind::kData);
  }
}

TEST(Record, SkipsBlocksOfUnknownType) {
  std::string storage;
  const Record record = small_record(0, 20, storage);
  const std::string part("\x09\0\0\0\x03\0\0\0abc\x01\0\0\0\0\0\0\0", 19);
  expect_equal(decode_record(with_annotation_part(record, part), "r"), record);
}

TEST(Record, NamesANewerVersion) {
  std::string storage;
  std::string bytes = encode_record(small_record(1, 20, storage));
  bytes[4] = 3;
  const std::uint64_t hash = xxh3(std::string_view(bytes).substr(0, 40));
  for (std::size_t i = 0; i < 8; ++i) bytes[40 + i] = static_cast<char>(hash >> (8 * i));
  std::string message;
  EXPECT_EQ(error_kind([&] { decode_record(bytes, "shard: record 7"); }, &message),
            ErrorKind::kData);
  EXPECT_THAT(message, HasSubstr("shard: record 7: was written by a newer version"));
}

TEST(Record, TrainableMeansNoCrowdAndAnAreaInsideTheImage) {
  const auto box = [](double x, double y, double w, double h) {
    return RecordAnnotation{.bbox = {x, y, w, h}};
  };
  EXPECT_TRUE(is_trainable(box(1, 1, 2, 2), 10, 10));
  EXPECT_TRUE(is_trainable(box(-1, -1, 2, 2), 10, 10));
  EXPECT_FALSE(is_trainable(box(1, 1, 0, 2), 10, 10));
  EXPECT_FALSE(is_trainable(box(1, 1, 2, -1), 10, 10));
  EXPECT_FALSE(is_trainable(box(10, 1, 2, 2), 10, 10));
  EXPECT_FALSE(is_trainable(box(-3, 1, 2, 2), 10, 10));
  EXPECT_FALSE(is_trainable(box(5, 5, 1e-9, 2), 10, 10)) << "no width left in f32";
  RecordAnnotation crowd = box(1, 1, 2, 2);
  crowd.iscrowd = true;
  EXPECT_FALSE(is_trainable(crowd, 10, 10));
  RecordAnnotation partial = box(0, 0, 5, 5);
  partial.is_partial = true;
  EXPECT_FALSE(is_trainable(partial, 10, 10));
}

TEST(Record, ABoxThatMirroringCouldCloseIsNotTrainable) {
  const RecordAnnotation thin{.bbox = {1e-5, 100, 2e-5, 50}};  // 640 - x is 640 for both corners
  EXPECT_FALSE(is_trainable(thin, 640, 480));
  const RecordAnnotation mirrored{.bbox = {640 - 2e-5, 100, 2e-5, 50}};
  EXPECT_FALSE(is_trainable(mirrored, 640, 480));
  EXPECT_TRUE(is_trainable({.bbox = {320, 100, 0.001, 50}}, 640, 480));
}

TEST(Record, ATrainingBoxKeepsItsSidesHoweverItIsMirroredAndScaled) {
  const RandomStream random{.seed = 5, .use = RandomUse::kTest};
  std::uint64_t drawn = 0;
  int kept = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto width = static_cast<int>(1 + random.below(drawn++, 65'500));
    const double side = width * std::exp2(-18 - 4 * random.unit(drawn++));  // about the bound
    const RecordAnnotation thin{.bbox = {random.unit(drawn++) * width, 0, side, 10}};
    const auto box = training_box(thin, width, 10);
    if (!box) continue;
    ++kept;
    const auto limit = static_cast<float>(width);
    const float scale = static_cast<float>(1 + random.below(drawn++, 4000)) / limit;
    const auto [x1, y1, x2, y2] = *box;
    ASSERT_LT(x1 * scale, x2 * scale) << x1 << " " << x2 << " of " << width;
    ASSERT_LT((limit - x2) * scale, (limit - x1) * scale) << x1 << " " << x2 << " of " << width;
  }
  EXPECT_GT(kept, 50'000);
}

}  // namespace
}  // namespace retina
