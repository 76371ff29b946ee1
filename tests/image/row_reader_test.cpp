// Images by rows: the same as decode_any_image() makes of the whole file, whatever the chunks.
#include "shared/image/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/memory.h"
#include "shared/image/image_file.h"
#include "shared/numeric/random.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

// Reads a file in chunks of random sizes, passing over some, and compares what it gets with the
// whole image. Returns the status at the end.
DecodeStatus expect_rows_of(const std::string& path, const Image& whole, std::uint32_t seed,
                            bool skips) {
  RowReader reader(path);
  if (!reader.status().ok) return reader.status();
  EXPECT_EQ(reader.width(), whole.width);
  EXPECT_EQ(reader.height(), whole.height);
  const RandomStream random{.seed = seed, .use = RandomUse::kTest};
  Image rows;
  for (std::uint64_t i = 0; reader.next_row() < whole.height; ++i) {
    const int first = reader.next_row();
    const int count = 1 + static_cast<int>(random.below(2 * i, 40));
    if (skips && random.below(2 * i + 1, 2) == 0) {
      if (!reader.skip(count).ok) break;
      continue;
    }
    if (!reader.read(count, rows).ok) break;
    EXPECT_EQ(rows.height, std::min(count, whole.height - first));
    const auto* const expected = whole.pixel(0, first);
    if (!std::equal(rows.rgb.begin(), rows.rgb.end(), expected)) {
      ADD_FAILURE() << path << ": rows from " << first << " differ";
      break;
    }
  }
  return reader.status();
}

void expect_like_the_whole(const std::string& path, std::uint32_t seed) {
  SCOPED_TRACE(cat(path, ", seed ", seed));
  JpegDecoder decoder;
  Image whole;
  const DecodeStatus status = decode_any_image(read_file(path), decoder, whole);
  if (!status.ok) {
    const DecodeStatus by_rows = [&] {
      RowReader reader(path);
      Image rows;
      while (reader.status().ok && reader.next_row() < reader.height()) reader.read(7, rows);
      return reader.status();
    }();
    EXPECT_FALSE(by_rows.ok) << status.problem;
    EXPECT_EQ(by_rows.unsupported, status.unsupported);
    if (status.unsupported) {
      EXPECT_EQ(by_rows.problem, status.problem);
    }
    return;
  }
  const DecodeStatus by_rows = expect_rows_of(path, whole, seed, false);
  EXPECT_TRUE(by_rows.ok) << by_rows.problem;
  EXPECT_EQ(by_rows.truncated, status.truncated) << by_rows.first_warning;
  EXPECT_EQ(by_rows.is_blank, status.is_blank);
  EXPECT_EQ(by_rows.first_warning, status.first_warning);
  if (status.first_warning.empty()) {
    EXPECT_TRUE(expect_rows_of(path, whole, seed, true).ok);
  }
}

TEST(RowReader, EveryFileOfTheZooIsTheSameByRows) {
  RETINA_DATA_OR_SKIP(folder, "jpeg_zoo");
  std::uint32_t seed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jpg") expect_like_the_whole(entry.path(), ++seed);
  }
  EXPECT_GT(seed, 50U);
}

class Files {
 public:
  std::string write(const std::string& bytes) const {
    const std::string path = folder_ / "image";
    std::ofstream(path, std::ios::binary) << bytes;  // no disk need hold it
    return path;
  }

 private:
  TestFolder folder_{};
};

std::vector<std::uint16_t> random_samples(int count, int bits, std::uint32_t seed) {
  const RandomStream random{.seed = seed, .use = RandomUse::kTest};
  std::vector<std::uint16_t> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back(static_cast<std::uint16_t>(
        random.below(static_cast<std::uint64_t>(i), std::uint64_t{1} << bits)));
  }
  return samples;
}

// Kinds of pixels are those of image_file_test.cpp; chunks and skipping are what differs here.
TEST(RowReader, EveryFormatIsTheSameInAnyChunks) {
  const Files files;
  const Image image = colourful(61, 97);
  const std::vector<std::uint16_t> rgb(image.rgb.begin(), image.rgb.end());
  std::vector<std::string> contents = {encode_jpeg(image, 85), encode_webp(image)};
  for (const bool interlaced : {false, true}) {
    contents.push_back(encode_png({.width = 61, .height = 97, .interlaced = interlaced}, rgb));
  }
  for (const int compression : {1, 5, 7}) {
    for (const int tile_px : {0, 16, 48, 112}) {
      for (const int rows_per_strip : {8, 96}) {
        contents.push_back(encode_tiff({.width = 61,
                                        .height = 97,
                                        .compression = compression,
                                        .tile_px = tile_px,
                                        .rows_per_strip = rows_per_strip,
                                        .separate = compression == 5},
                                       rgb));
      }
    }
  }
  for (std::uint32_t run = 0; run < 300; ++run) {
    const RandomStream random{.seed = 8, .use = RandomUse::kTest, .stream = run};
    std::string bytes = contents[run % contents.size()];
    expect_like_the_whole(files.write(bytes), run);
    bytes[random.below(1, bytes.size())] = static_cast<char>(random.bits(2));
    expect_like_the_whole(files.write(bytes), run);
  }
}

Image stretched(const std::string& path, const Stretch& stretch = {}) {
  RowReader reader(path, {.stretch = stretch});
  EXPECT_TRUE(reader.status().ok) << reader.status().problem;
  EXPECT_EQ(reader.next_row(), 0);
  Image out;
  reader.read(reader.height(), out);
  EXPECT_TRUE(reader.status().ok) << reader.status().problem;
  return out;
}

DecodeStatus decode_whole(const std::string& bytes, Image& out) {
  JpegDecoder decoder;
  return decode_any_image(bytes, decoder, out);
}

// Samples of 61 x 97 pixels, `nodata` alone in the middle rows and to the left.
std::vector<std::uint16_t> samples_with_gaps(int channels, int bits, std::uint16_t nodata) {
  auto samples = random_samples(61 * 97 * channels, bits, 6);
  for (int i = 0; i < 61 * 97; ++i) {
    const bool is_gap = i % 61 < 33 || (i / 61 > 17 && i / 61 < 55);
    if (is_gap) std::fill_n(samples.begin() + i * channels, channels, nodata);
  }
  return samples;
}

TEST(RowReader, PartsOfATiffThatGdalLeftOutAreItsNodata) {
  struct Kind {
    int photometric, bits, samples;
    std::uint16_t nodata;
  };
  const Files files;
  std::uint32_t seed = 0;
  for (const Kind& kind :
       {Kind{0, 8, 1, 7}, Kind{1, 4, 1, 3}, Kind{1, 8, 1, 0}, Kind{2, 8, 3, 0}, Kind{2, 8, 3, 255},
        Kind{2, 8, 4, 0}, Kind{3, 8, 1, 9}, Kind{5, 8, 4, 20}, Kind{1, 16, 1, 65535},
        Kind{1, 12, 1, 5}, Kind{2, 16, 3, 0}}) {
    for (const int compression : {1, 5}) {
      for (const int tile_px : {0, 16}) {
        for (const bool separate : {false, true}) {
          if (separate && (kind.samples == 1 || kind.photometric == 5)) continue;
          SCOPED_TRACE(cat(kind.photometric, ' ', kind.bits, ' ', kind.samples, ' ', compression,
                           ' ', tile_px, ' ', separate));
          TiffLook look{.width = 61,
                        .height = 97,
                        .bits = kind.bits,
                        .samples = kind.samples,
                        .photometric = kind.photometric,
                        .compression = compression,
                        .extra = std::vector<std::uint16_t>(kind.samples == 4 ? 1 : 0, 2),
                        .tile_px = tile_px,
                        .separate = separate,
                        .is_big = ++seed % 2 == 1};
          if (kind.photometric == 5) look.extra.clear();
          const auto samples = samples_with_gaps(kind.samples, kind.bits, kind.nodata);
          const std::string all = encode_tiff(look, samples);
          look.left_out = kind.nodata;
          if (kind.nodata != 0) look.nodata = cat(kind.nodata);
          const std::string sparse = encode_tiff(look, samples);
          ASSERT_LT(sparse.size(), all.size());
          if (kind.bits > 8) {
            EXPECT_EQ(stretched(files.write(sparse)).rgb, stretched(files.write(all)).rgb);
            continue;
          }
          Image expected, out;
          ASSERT_TRUE(decode_whole(all, expected).ok);
          const DecodeStatus status = decode_whole(sparse, out);
          ASSERT_TRUE(status.ok) << status.problem;
          EXPECT_FALSE(status.truncated) << status.first_warning;
          EXPECT_EQ(out.rgb, expected.rgb);
          expect_like_the_whole(files.write(sparse), seed);
        }
      }
    }
  }
}

TEST(RowReader, ATiffThatListsTooFewPartsIsDamaged) {
  std::string bytes =
      encode_tiff({.width = 61, .height = 96, .compression = 5, .rows_per_strip = 8, .left_out = 0},
                  samples_with_gaps(3, 8, 1));
  const std::string height("\x01\x01\x03\x00\x01\x00\x00\x00\x60\x00", 10);
  const std::size_t at = bytes.find(height);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 9] = 1;  // 256 rows more
  Image out;
  EXPECT_FALSE(decode_whole(bytes, out).ok);
}

// libtiff takes memory for all of its pixels, whatever the file holds.
TEST(RowReader, JpegInItsWithdrawnFormIsRefused) {
  const Files files;
  const std::string bytes = raw_tiff({{256, 4, {13000}},
                                      {257, 4, {13000}},
                                      {258, 3, {8, 8, 8}},
                                      {259, 3, {6}},
                                      {262, 3, {6}},
                                      {273, 4, {8}},
                                      {277, 3, {3}},
                                      {278, 4, {13000}},
                                      {279, 4, {100}},
                                      {513, 4, {8}},
                                      {514, 4, {100}}},
                                     encode_jpeg(Image(64, 64), 90));
  Image out;
  for (const std::string& problem :
       {decode_whole(bytes, out).problem, RowReader(files.write(bytes)).status().problem}) {
    EXPECT_THAT(problem, HasSubstr("JPEG in its withdrawn form (compression 6"));
  }
}

TEST(RowReader, PartsThatAreNotInTheFileAreDamageAndNotItsHeaderAsPixels) {
  const Files files;
  const std::string pixels(20 * 10 * 3, 'x');
  const auto tiff = [&](std::vector<std::uint64_t> offsets, std::vector<std::uint64_t> counts) {
    return raw_tiff({{256, 4, {20}},
                     {257, 4, {10}},
                     {258, 3, {8, 8, 8}},
                     {259, 3, {1}},
                     {262, 3, {2}},
                     {273, 4, std::move(offsets)},
                     {277, 3, {3}},
                     {278, 4, {5}},
                     {279, 4, std::move(counts)}},
                    pixels);
  };
  // Behind the directory of 9 fields: three times 8, 8 and 6 bytes of values.
  constexpr std::uint64_t kPixels = 8 + 2 + 9 * 12 + 4 + 6 + 8 + 8;
  ASSERT_EQ(tiff({0, 0}, {0, 0}).find('x'), kPixels);
  Image out;
  const std::string good = tiff({kPixels, kPixels + 300}, {300, 300});
  ASSERT_TRUE(decode_whole(good, out).ok) << decode_whole(good, out).problem;
  EXPECT_EQ(out.rgb, std::vector<std::uint8_t>(600, 'x'));
  expect_like_the_whole(files.write(good), 1);
  struct Case {
    std::vector<std::uint64_t> offsets, counts;
    const char* problem;
  };
  for (const Case& one :
       {Case{{kPixels}, {300}, "it lists 1 of its 2 strips"},
        Case{{kPixels, kPixels + 300}, {300, 0}, "strip 1 is not in the file (0 bytes at byte"},
        Case{{kPixels, kPixels + 300}, {300, 299}, "strip 1 is not in the file (299 bytes at byte"},
        Case{{kPixels, kPixels + 301}, {300, 300}, "strip 1 is not in the file (300 bytes at byte"},
        Case{{0, kPixels}, {300, 300}, "strip 0 is not in the file (300 bytes at byte 0)"},
        Case{{kPixels, 4294967290}, {300, 300}, "strip 1 is not in the file"},
        Case{{kPixels, kPixels}, {300, 4294967295}, "strip 1 is not in the file"}}) {
    const std::string bytes = tiff(one.offsets, one.counts);
    EXPECT_THAT(decode_whole(bytes, out).problem, HasSubstr(one.problem));
    EXPECT_THAT(RowReader(files.write(bytes)).status().problem, HasSubstr(one.problem));
    EXPECT_FALSE(RowReader(files.write(bytes), {.stretch = Stretch{}}).status().ok);
  }
}

// libtiff cuts it into strips of 8 KiB, which the file does not list.
TEST(RowReader, ATiffOfOnePlainStripIsRead) {
  const Files files;
  const Image image = colourful(200, 100);
  const std::string bytes = encode_tiff({.width = 200, .height = 100, .rows_per_strip = 100},
                                        {image.rgb.begin(), image.rgb.end()});
  Image out;
  ASSERT_TRUE(decode_whole(bytes, out).ok) << decode_whole(bytes, out).problem;
  EXPECT_EQ(out.rgb, image.rgb);
  expect_like_the_whole(files.write(bytes), 1);
}

// Whatever stands in the directory: the whole and the rows have the same pixels, or both refuse.
TEST(RowReader, TiffsWithADamagedDirectoryAreReadOrRefusedAlike) {
  const Files files;
  const auto samples = samples_with_gaps(3, 8, 0);
  std::vector<std::string> contents;
  for (const int compression : {1, 5, 8}) {
    for (const int tile_px : {0, 16, 112}) {
      for (const bool separate : {false, true}) {
        for (const bool is_sparse : {false, true}) {
          TiffLook look{.width = 61,
                        .height = 97,
                        .compression = compression,
                        .tile_px = tile_px,
                        .rows_per_strip = 8,
                        .separate = separate,
                        .is_big = contents.size() % 3 == 2};
          if (is_sparse) look.left_out = 0;
          contents.push_back(encode_tiff(look, samples));
        }
      }
    }
  }
  constexpr std::uint64_t kSeed = 31;
  SCOPED_TRACE(cat("seed ", kSeed));
  std::uint32_t read_count = 0;
  for (std::uint32_t run = 0; run < 3000; ++run) {
    const RandomStream random{.seed = kSeed, .use = RandomUse::kTest, .stream = run};
    std::string bytes = contents[run % contents.size()];
    // libtiff writes the directory at the end, which is where the header says.
    std::uint64_t directory = 0;
    const bool is_big = bytes[2] == '+';
    std::memcpy(&directory, bytes.data() + (is_big ? 8 : 4), is_big ? 8 : 4);
    const std::uint64_t changes = 1 + random.below(0, 2);
    for (std::uint64_t i = 0; i < changes; ++i) {
      const std::uint64_t at = directory + random.below(3 * i + 1, bytes.size() - directory);
      const auto value = static_cast<std::uint8_t>(random.bits(3 * i + 2));
      const int near = static_cast<std::uint8_t>(bytes[at]) + value % 5 - 2;  // likelier to be read
      bytes[at] = static_cast<char>(run % 4 == 0 ? value : near);
    }
    int width = 0, height = 0;
    const bool is_small = read_tiff_size(bytes, width, height).ok &&
                          std::int64_t{width} * height < std::int64_t{1} << 22;
    if (!is_small) continue;  // or it takes long
    expect_like_the_whole(files.write(bytes), run);
    Image out;
    read_count += decode_whole(bytes, out).ok ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(read_count, 200U);
}

TEST(RowReader, ProblemsNameTheirRow) {
  const Files files;
  Image rows;
  const PngLook look{.width = 300, .height = 300};
  const std::string png = encode_png(look, random_samples(3 * 300 * 300, 8, 1));
  RowReader reader(files.write(png.substr(0, png.size() / 2)));
  ASSERT_TRUE(reader.status().ok);
  EXPECT_FALSE(reader.read(300, rows).ok);
  EXPECT_GT(reader.next_row(), 100);
  EXPECT_LT(reader.next_row(), 151);
  EXPECT_EQ(reader.status().problem,
            cat("damaged PNG: the file ends too early (at row ", reader.next_row(), ")"));
  EXPECT_FALSE(reader.read(1, rows).ok) << "it stays so";
  EXPECT_THROW(RowReader("/nonexistent/image.tif"), Error);
}

// Pixel (x, y) has the colours x, y and x + y, a 64th of them.
Image slow_gradient(int side_px) {
  Image image(side_px, side_px);
  for (int y = 0; y < side_px; ++y) {
    for (int x = 0; x < side_px; ++x) {
      image.pixel(x, y)[0] = static_cast<std::uint8_t>(x / 64);
      image.pixel(x, y)[1] = static_cast<std::uint8_t>(y / 64);
      image.pixel(x, y)[2] = static_cast<std::uint8_t>((x + y) / 64);
    }
  }
  return image;
}

// A process that reads the image in chunks prints its peak of resident memory: see read_rows.cpp.
std::int64_t peak_bytes(const std::string& path) {
  const ProcessResult read = run_process({"read_rows", path, "64"});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  return std::strtoll(read.out.c_str(), nullptr, 10);
}

TEST(RowReader, MemoryIsThatOfAFewRowsWhateverTheImage) {
  const Files files;
  const auto extra_bytes = [&](const std::string& path) {
    return peak_bytes(path) - peak_bytes("");
  };
  const std::string jpeg = files.write(encode_jpeg(slow_gradient(8000), 75));  // 192 MB of pixels
  EXPECT_LT(extra_bytes(jpeg), std::int64_t{16} << 20);
  const std::string tiff =
      files.write(encode_tiff({.width = 4000, .height = 4000, .compression = 5, .tile_px = 256},
                              std::vector<std::uint16_t>(std::size_t{3} * 4000 * 4000)));
  EXPECT_LT(extra_bytes(tiff), std::int64_t{32} << 20);
}

TEST(RowReader, ASizeThatAFileOnlyStatesTakesNoMemory) {
  const Files files;
  const std::int64_t nothing = peak_bytes("");
  struct Case {
    int width, height, tile_width, tile_height;
    const char* problem;  // "": none
  };
  for (const Case& one : {Case{30000, 30000, 30000, 30000, "image of 30000x30000 pixels"},
                          Case{100, 100, 30000, 30000, "its tiles take 2700000000 bytes each"},
                          Case{100, 100, 65536, 65536, "its tiles take 12884901888 bytes each"},
                          Case{100, 100, 1024, 1024, ""}, Case{999999, 20, 1000000, 16, ""}}) {
    const std::string path =
        files.write(sparse_tiff(one.width, one.height, one.tile_width, one.tile_height));
    const ProcessResult read = run_process({"read_rows", path, "16"});
    EXPECT_LT(std::strtoll(read.out.c_str(), nullptr, 10) - nothing, std::int64_t{160} << 20);
    EXPECT_THAT(read.err, HasSubstr(one.problem));
    EXPECT_EQ(read.exit_code == 0, *one.problem == '\0') << read.err;
  }
}

// libtiff copies what each tag of its own points to.
TEST(RowReader, TagsThatShareTheirBytesTakeNoMemory) {
  constexpr int kTags = 4000;
  constexpr std::uint32_t kBytesEach = 1'000'000;
  std::string bytes("II*\0\x08\0\0\0", 8);
  const auto put = [&](std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  const auto put_entry = [&](std::uint32_t tag, std::uint32_t type, std::uint32_t count,
                             std::uint32_t value) {
    put(tag, 2);
    put(type, 2);
    put(count, 4);
    put(value, 4);
  };
  put(9 + kTags, 2);
  for (const auto& [tag, value] : {std::pair{256, 10},
                                   {257, 10},
                                   {258, 8},
                                   {259, 1},
                                   {262, 1},
                                   {273, 8},
                                   {277, 1},
                                   {278, 10},
                                   {279, 100}}) {
    put_entry(static_cast<std::uint32_t>(tag), 4, 1, static_cast<std::uint32_t>(value));
  }
  for (int i = 0; i < kTags; ++i) {
    put_entry(40000 + static_cast<std::uint32_t>(i), 1, kBytesEach, 8);
  }
  bytes.resize(kBytesEach + 8);
  const Files files;
  const std::int64_t nothing = peak_bytes("");
  const ProcessResult read = run_process({"read_rows", files.write(bytes), "16"});
  EXPECT_NE(read.exit_code, 0);
  EXPECT_THAT(read.err, HasSubstr("damaged TIFF: its tags take more than "));
  EXPECT_LT(std::strtoll(read.out.c_str(), nullptr, 10) - nothing, std::int64_t{64} << 20);
}

TEST(Stretch, GoesFromPercentileToPercentileOfEachChannel) {
  constexpr int kSide = 100;
  const Files files;
  std::vector<std::uint16_t> samples;
  for (int i = 0; i < kSide * kSide; ++i) {
    samples.push_back(static_cast<std::uint16_t>(i));             // 0..9999
    samples.push_back(static_cast<std::uint16_t>(65535 - i));     // downwards
    samples.push_back(static_cast<std::uint16_t>(1000 + i % 2));  // two values
  }
  // 2% of 10,000 are those up to 199, 98% those up to 9799.
  const auto expected = [&](double value, double low, double high) {
    return std::lround(255 * std::clamp((value - low) / (high - low), 0.0, 1.0));
  };
  for (const bool is_png : {false, true}) {
    const std::string bytes =
        is_png ? encode_png({.width = kSide, .height = kSide, .bit_depth = 16}, samples)
               : encode_tiff({.width = kSide, .height = kSide, .bits = 16}, samples);
    const Image image = stretched(files.write(bytes));
    for (int i = 0; i < kSide * kSide; ++i) {
      const std::uint8_t* const pixel = image.pixel(i % kSide, i / kSide);
      ASSERT_EQ(pixel[0], expected(i, 199, 9799)) << i;
      ASSERT_EQ(pixel[1], expected(65535 - i, 55735, 65335)) << i;
      ASSERT_EQ(pixel[2], i % 2 == 0 ? 0 : 255) << i;
    }
  }
  const Image all =
      stretched(files.write(encode_tiff({.width = kSide, .height = kSide, .bits = 16}, samples)),
                {.low = 0, .high = 100});
  EXPECT_EQ(all.pixel(50, 50)[0], expected(5050, 0, 9999));
}

TEST(Stretch, TakesEveryLayoutOfTheSameSamplesAlike) {
  constexpr int kWidth = 61, kHeight = 47;
  const Files files;
  for (const int bits : {8, 12, 16}) {
    for (const int channels : {1, 2, 3, 5}) {
      std::vector<std::uint16_t> rgb;
      const auto samples = random_samples(kWidth * kHeight * channels, bits, 3);
      std::optional<Image> first;
      for (const int compression : {1, 5}) {
        for (const int tile_px : {0, 16}) {
          for (const bool separate : {false, true}) {
            if (separate && (bits == 12 || channels == 1)) continue;
            const TiffLook look{
                .width = kWidth,
                .height = kHeight,
                .bits = bits,
                .samples = channels,
                .photometric = 1,
                .compression = compression,
                .extra = std::vector<std::uint16_t>(static_cast<std::size_t>(channels - 1)),
                .tile_px = tile_px,
                .separate = separate};
            SCOPED_TRACE(cat(bits, ' ', channels, ' ', compression, ' ', tile_px, ' ', separate));
            Image image = stretched(files.write(encode_tiff(look, samples)));
            if (!first) first = image;
            ASSERT_EQ(image.rgb, first->rgb);
          }
        }
      }
      const auto at = [&](int pixel, int c) {
        return samples[static_cast<std::size_t>(pixel * channels + (channels < 3 ? 0 : c))];
      };
      for (int pixel = 1; pixel < kWidth * kHeight; ++pixel) {
        for (int c = 0; c < 3; ++c) {
          const std::uint8_t* const before = first->rgb.data() + 3 * (pixel - 1);
          if (bits == 8) {
            ASSERT_EQ(before[3 + c], at(pixel, c));
          } else if (at(pixel, c) >= at(pixel - 1, c)) {
            ASSERT_GE(before[3 + c], before[c]);
          }
        }
      }
    }
  }
}

TEST(Stretch, IsTwoPercentilesInOrder) {
  EXPECT_EQ(parse_stretch("2,98")->low, 2);
  EXPECT_EQ(parse_stretch("0.5,99.5")->high, 99.5);
  EXPECT_TRUE(parse_stretch("0,100"));
  for (const char* const text : {"", "2", "2,", ",98", "98,2", "2,2", "-1,98", "2,101", "2;98",
                                 "2,98,99", "nan,98", "2, 98", "2,98 "}) {
    EXPECT_FALSE(parse_stretch(text)) << text;
  }
}

TEST(Stretch, LeavesImagesOf8BitsAsTheyAre) {
  const Files files;
  const Image image = colourful(40, 30);
  EXPECT_EQ(stretched(files.write(encode_png(image))).rgb, image.rgb);
  EXPECT_EQ(stretched(files.write(encode_tiff(image))).rgb, image.rgb);
}

TEST(Stretch, RefusesWhatIsNotWholeNumbersOf16BitsAndTellsOfDamage) {
  const Files files;
  const auto problem = [&](const std::string& bytes) {
    return RowReader(files.write(bytes), {.stretch = Stretch{}}).status().problem;
  };
  const TiffLook floats{.bits = 32, .samples = 1, .photometric = 1, .sample_format = 3};
  EXPECT_THAT(problem(encode_tiff(floats, std::vector<std::uint16_t>(256))),
              HasSubstr("of 32-bit samples that cannot be stretched"));
  const TiffLook wide{.bits = 32, .samples = 1, .photometric = 1};
  EXPECT_THAT(problem(encode_tiff(wide, std::vector<std::uint16_t>(256))),
              HasSubstr("want whole numbers of up to 16 bits"));
  const auto samples = random_samples(300 * 300 * 3, 16, 4);
  const std::string png = encode_png({.width = 300, .height = 300, .bit_depth = 16}, samples);
  EXPECT_THAT(problem(png.substr(0, png.size() / 2)), HasSubstr("at row 14"));
}

TEST(RowReader, StripsThatMustBeHeldInMemoryAreRefusedAboveTheLimitWithTheFix) {
  const Files files;
  const RowReader strips(files.write(raw_tiff({{256, 4, {20000}},
                                               {257, 4, {20000}},
                                               {258, 3, {8}},
                                               {259, 3, {5}},
                                               {262, 3, {1}},
                                               {273, 4, {8}},
                                               {277, 3, {1}},
                                               {278, 4, {20000}},
                                               {279, 4, {100}}},
                                              std::string(1000, 'x'))));
  EXPECT_TRUE(strips.status().unsupported);
  EXPECT_THAT(strips.status().problem, HasSubstr("a TIFF whose strips have 20000 rows"));
}

TEST(ReadReduced, IsTheMeanOfSquares) {
  const Files files;
  const Image image = colourful(103, 61);
  const ReducedImage reduced = read_reduced(files.write(encode_png(image)), 26);
  ASSERT_TRUE(reduced.status.ok) << reduced.status.problem;
  EXPECT_EQ(reduced.width, 103);
  EXPECT_EQ(reduced.height, 61);
  ASSERT_EQ(reduced.image.width, 26);
  ASSERT_EQ(reduced.image.height, 16);
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 26; ++x) {
      for (int c = 0; c < 3; ++c) {
        int sum = 0, count = 0;
        for (int v = 4 * y; v < std::min(61, 4 * y + 4); ++v) {
          for (int u = 4 * x; u < std::min(103, 4 * x + 4); ++u, ++count) {
            sum += image.pixel(u, v)[c];
          }
        }
        ASSERT_EQ(reduced.image.pixel(x, y)[c], (sum + count / 2) / count) << x << ' ' << y;
      }
    }
  }
}

TEST(ReadReduced, OfAJpegIsNearlyTheMean) {
  const Files files;
  const std::string path = files.write(encode_jpeg(slow_gradient(1000), 90));
  for (const int side : {1000, 500, 300, 125, 84, 50}) {
    const ReducedImage reduced = read_reduced(path, side);
    ASSERT_TRUE(reduced.status.ok) << reduced.status.problem;
    const int divisor = (1000 + side - 1) / side;
    EXPECT_EQ(reduced.image.width, (1000 + divisor - 1) / divisor) << side;
    EXPECT_EQ(reduced.image.height, reduced.image.width) << side;
    const int middle = reduced.image.width / 2;
    EXPECT_NEAR(reduced.image.pixel(middle, middle)[1], middle * divisor / 64, 2) << side;
  }
}

}  // namespace
}  // namespace retina
