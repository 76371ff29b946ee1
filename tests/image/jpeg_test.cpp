#include "shared/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs FILE declared before it.
#include <jpeglib.h>

#include <new>
#include <string>
#include <vector>

#include "shared/image/row_reader.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

Image gradient(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixel(x, y)[0] = static_cast<std::uint8_t>(255 * x / width);
      image.pixel(x, y)[1] = static_cast<std::uint8_t>(255 * y / height);
      image.pixel(x, y)[2] = 128;
    }
  }
  return image;
}

// A JPEG of random pixels, written with the plain library; of a baseline one with the standard's
// Huffman tables.
std::string random_jpeg(int side, bool is_progressive) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size_bytes = 0;
  jpeg_mem_dest(&info, &bytes, &size_bytes);
  info.image_width = info.image_height = static_cast<JDIMENSION>(side);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(side) * 3);
  const RandomStream random{.seed = 7};
  while (info.next_scanline < info.image_height) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<std::uint8_t>(random.bits(info.next_scanline * row.size() + i));
    }
    JSAMPROW target = row.data();
    jpeg_write_scanlines(&info, &target, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<const char*>(bytes), size_bytes);
  std::free(bytes);
  jpeg_destroy_compress(&info);
  return out;
}

DecodeStatus decode(const std::string& bytes, Image& out) {
  return JpegDecoder().decode(bytes, out);
}

TEST(Jpeg, EncodedImagesDecodeToNearlyTheSamePixels) {
  const Image image = gradient(97, 61);
  const std::string bytes = encode_jpeg(image, 95);
  Image back;
  const DecodeStatus status = decode(bytes, back);
  ASSERT_TRUE(status.ok) << status.problem;
  EXPECT_EQ(status.first_warning, "");
  ASSERT_EQ(back.width, 97);
  ASSERT_EQ(back.height, 61);
  double sum = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    sum += std::abs(static_cast<double>(image.rgb[i]) - back.rgb[i]);
  }
  EXPECT_LT(sum / static_cast<double>(image.rgb.size()), 2.0);
  EXPECT_LT(encode_jpeg(image, 10).size(), bytes.size());
}

TEST(Jpeg, EveryTruncationIsAnErrorOrFlagged) {
  const std::string bytes = encode_jpeg(gradient(64, 64), 90);
  JpegDecoder decoder;
  Image out;
  for (std::size_t size = 0; size + 2 < bytes.size(); size += 3) {
    const DecodeStatus status = decoder.decode(std::string_view(bytes).substr(0, size), out);
    ASSERT_TRUE(!status.ok || !status.first_warning.empty()) << size;
    ASSERT_EQ(usable(status, TruncatedPolicy::kRefuse),
              unusable_reason(status, TruncatedPolicy::kRefuse).empty())
        << size;
    // The last bytes may hold nothing but padding bits.
    ASSERT_TRUE(!status.ok || status.truncated || size + 16 >= bytes.size()) << size;
  }
}

// `bytes` without the segments of this marker: 0xC4 Huffman tables, 0xDB quantisation tables.
std::string without_segments(const std::string& bytes, std::uint8_t marker) {
  std::string out = bytes.substr(0, 2);
  std::size_t at = 2;
  while (bytes.substr(at, 2) != "\xFF\xDA") {  // up to the first scan
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes.at(i)); };
    const std::size_t size = 2U + byte(at + 2) * 256U + byte(at + 3);
    if (byte(at + 1) != marker) out += bytes.substr(at, size);
    at += size;
  }
  return out + bytes.substr(at);
}

// Frames of Motion JPEG have no Huffman tables: the standard's own are meant (ITU T.81, K.3).
TEST(Jpeg, NoImageGetsTheTablesOfTheOneBefore) {
  const std::string plain = random_jpeg(64, false), other = encode_jpeg(gradient(64, 64), 50);
  const std::string frame = without_segments(plain, 0xC4), bare = without_segments(plain, 0xDB);
  ASSERT_LT(frame.size(), plain.size());
  ASSERT_LT(bare.size(), plain.size());
  Image expected, out;
  ASSERT_TRUE(decode(plain, expected).ok);
  JpegDecoder decoder;
  for (const std::string& before : {plain, other, plain}) {
    int width = 0, height = 0;
    ASSERT_TRUE(decoder.decode(before, out).ok);
    const DecodeStatus status = decoder.decode(frame, out);
    EXPECT_EQ(status.first_warning, "");
    EXPECT_EQ(out.rgb, expected.rgb);
    ASSERT_TRUE(decoder.decode(before, out).ok);
    EXPECT_TRUE(decoder.check(frame, width, height).ok);
    ASSERT_TRUE(decoder.decode(before, out).ok);
    EXPECT_FALSE(decoder.decode(bare, out).ok);
    ASSERT_TRUE(decoder.decode(before, out).ok);
    EXPECT_FALSE(decoder.check(bare, width, height).ok);
  }
}

TEST(Jpeg, AMissingEndMarkerAloneIsNoTruncation) {
  for (const std::string& bytes : {encode_jpeg(gradient(64, 64), 90), random_jpeg(32, true)}) {
    Image whole, stripped;
    ASSERT_TRUE(decode(bytes, whole).ok);
    const DecodeStatus status = decode(bytes.substr(0, bytes.size() - 2), stripped);
    EXPECT_TRUE(status.ok);
    EXPECT_NE(status.first_warning, "");
    EXPECT_FALSE(status.truncated);
    EXPECT_EQ(whole.rgb, stripped.rgb);
  }
}

// `bytes` up to `size`, with an end marker put behind.
std::string ended_at(const std::string& bytes, std::size_t size) {
  return bytes.substr(0, size) + "\xFF\xD9";
}

TEST(Jpeg, AnEndMarkerBehindAPartOfTheImageProvesNothing) {
  const std::string bytes = encode_jpeg(gradient(640, 480), 90);
  const std::size_t start = bytes.find("\xFF\xDA") + 14;
  Image out;
  for (const int percent : {0, 1, 10, 50, 75, 90, 95}) {
    const std::size_t size =
        start + (bytes.size() - start) * static_cast<std::size_t>(percent) / 100;
    const DecodeStatus status = decode(ended_at(bytes, size), out);
    EXPECT_FALSE(usable(status, TruncatedPolicy::kRefuse)) << percent;
    EXPECT_TRUE(unusable_reason(status, TruncatedPolicy::kRefuse).starts_with("truncated: "))
        << percent << unusable_reason(status, TruncatedPolicy::kRefuse);
  }
}

TEST(Jpeg, AProgressiveFileCutBetweenScansIsTruncatedWithAnEndMarkerToo) {
  const std::string bytes = random_jpeg(64, true);
  const std::string scan = "\xFF\xDA";
  int cuts = 0;
  Image out;
  // Each scan's header; the first has no image before it.
  for (auto at = bytes.find(scan, bytes.find(scan) + 2); at != std::string::npos;
       at = bytes.find(scan, at + 2)) {
    for (const std::string& cut : {bytes.substr(0, at), ended_at(bytes, at)}) {
      const DecodeStatus status = decode(cut, out);
      EXPECT_FALSE(usable(status, TruncatedPolicy::kRefuse)) << at;
      EXPECT_NE(unusable_reason(status, TruncatedPolicy::kRefuse), "truncated: ") << at;
    }
    ++cuts;
  }
  EXPECT_GE(cuts, 5);
}

// With its last scan so many times more, and bytes behind its end.
std::string with_scans(const std::string& bytes, int count, std::size_t more_bytes = 0) {
  const std::size_t last = bytes.rfind("\xFF\xDA"), end = bytes.size() - 2;
  std::string out = bytes.substr(0, end);
  for (int i = 0; i < count; ++i) out += bytes.substr(last, end - last);
  return out + bytes.substr(end) + std::string(more_bytes, '\0');
}

TEST(Jpeg, ScansAreBoundedByTheImagesPixels) {
  std::string bytes = random_jpeg(8, true);
  Image out;
  EXPECT_TRUE(decode(with_scans(bytes, 400), out).ok);
  EXPECT_EQ(decode(with_scans(bytes, 500), out).problem, "more than 500 scans");
  const std::size_t size_at = bytes.find("\xFF\xC2") + 5;
  bytes.replace(size_at, 4, "\x19\x64\x19\x64");  // 6,500 x 6,500
  EXPECT_TRUE(decode(with_scans(bytes, 30, 200'000), out).ok);
  EXPECT_EQ(decode(with_scans(bytes, 50, 200'000), out).problem, "more than 50 scans");
}

TEST(Jpeg, DecodingHasAnEnd) {
  Image out;
  for (const std::string& bytes : {encode_jpeg(gradient(64, 64), 90), random_jpeg(64, true)}) {
    EXPECT_TRUE(JpegDecoder(kDefaultMaxPixels, 3600).decode(bytes, out).ok);
    EXPECT_EQ(JpegDecoder(kDefaultMaxPixels, 0).decode(bytes, out).problem,
              "takes longer than 0 seconds to decode");
  }
}

TEST(Jpeg, AFlippedBitIsNoTruncation) {
  const std::string bytes = encode_jpeg(gradient(320, 240), 90);
  const std::size_t start = bytes.find("\xFF\xDA") + 14;
  Image out;
  for (std::size_t at = start; at + 2 < bytes.size(); at += 7) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    const DecodeStatus status = decode(damaged, out);
    ASSERT_FALSE(status.ok && status.truncated) << at << status.first_warning;
  }
}

TEST(Jpeg, AHeaderThatTheFileCannotFillIsRefusedBeforeAnythingIsAllocated) {
  for (const std::string& end : {std::string(), std::string("\xFF\xD9"), std::string(50, '\x55')}) {
    std::string bytes = encode_jpeg(gradient(8, 8), 90);
    const std::size_t size = bytes.find(std::string("\0\x08\0\x08", 4));
    bytes.replace(size, 4, "\x33\xF4\x33\xF4");  // 13300 x 13300: 531 MB
    bytes = bytes.substr(0, bytes.find("\xFF\xDA") + 14) + end;
    Image out;
    JpegDecoder decoder;
    int width = 0, height = 0;
    for (const DecodeStatus& status :
         {decoder.decode(bytes, out), decoder.check_header(bytes, width, height)}) {
      EXPECT_FALSE(status.ok);
      EXPECT_TRUE(status.problem.starts_with("truncated: ")) << status.problem;
      EXPECT_TRUE(status.problem.ends_with(" bytes cannot hold 13300x13300 pixels"));
    }
    EXPECT_EQ(out.rgb.capacity(), 0U);
  }
}

TEST(Jpeg, AFlatImageIsNotTooShort) {
  for (const std::string& bytes : {encode_jpeg(Image(4000, 3000), 10), random_jpeg(8, true)}) {
    Image out;
    const DecodeStatus status = decode(bytes, out);
    EXPECT_TRUE(usable(status, TruncatedPolicy::kRefuse)) << status.problem;
  }
}

TEST(Jpeg, ADecoderRecoversFromEveryError) {
  const std::string good = encode_jpeg(gradient(50, 40), 90);
  JpegDecoder decoder;
  Image first, again, junk;
  ASSERT_TRUE(decoder.decode(good, first).ok);
  const RandomStream random{.seed = 11};
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::string bad = good;
    for (std::uint64_t i = 0; i < 8; ++i) {
      bad[random.below(round * 16 + i, bad.size())] ^=
          static_cast<char>(1 << random.below(round * 16 + 8 + i, 8));
    }
    decoder.decode(bad, junk);
    if (round % 10 == 0) {
      const DecodeStatus status = decoder.decode(good, again);
      ASSERT_TRUE(status.ok) << round;
      ASSERT_EQ(status.first_warning, "") << round;
      ASSERT_EQ(again.rgb, first.rgb) << round;
    }
  }
}

TEST(Jpeg, LackOfMemoryIsNoDamage) {
  const std::string progressive = random_jpeg(256, true);
  const std::string baseline = encode_jpeg(gradient(64, 64), 90);
  ASSERT_EQ(::setenv("JPEGMEM", "1", 1), 0);  // libjpeg's limit in KiB for whole images
  JpegDecoder decoder;
  Image out;
  EXPECT_THROW(decoder.decode(progressive, out), std::bad_alloc);
  EXPECT_TRUE(decoder.decode(baseline, out).ok) << "row by row";
  EXPECT_THROW(encode_jpeg(gradient(256, 256), 90), std::bad_alloc);
  ::unsetenv("JPEGMEM");
}

TEST(Jpeg, AProgressiveOneIsReadByRowsUpToTheLimitOfMemory) {
  std::string bytes = random_jpeg(64, true);
  EXPECT_TRUE(RowReader(ImageBytes(bytes)).status().ok);
  const std::size_t frame = bytes.find("\xFF\xC2");
  bytes.replace(frame + 5, 4, "\x4E\x20\x4E\x20");  // 20,000 x 20,000
  bytes.append(std::size_t{4} << 20, '\0');
  const RowReader large{ImageBytes(bytes)};
  EXPECT_TRUE(large.status().unsupported);
  EXPECT_THAT(large.status().problem, testing::HasSubstr("a progressive JPEG, which must be held"));
}

}  // namespace
}  // namespace retina
