// Images of every format that we read, told by content: PNG, TIFF and WebP.
#include "shared/image/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "shared/image/orientation.h"
#include "shared/numeric/random.h"
#include "tests/support/images/images.h"

namespace retina {
namespace {

using testing::HasSubstr;

DecodeStatus decode(const std::string& bytes, Image& out,
                    std::uint64_t max_pixels = kDefaultMaxPixels) {
  JpegDecoder decoder(max_pixels);
  return decode_any_image(bytes, decoder, out);
}

struct Layout {
  int colour_type, bit_depth, channels;
};
constexpr Layout kLayouts[] = {{0, 1, 1}, {0, 2, 1},  {0, 4, 1},  {0, 8, 1}, {0, 16, 1},
                               {2, 8, 3}, {2, 16, 3}, {3, 1, 1},  {3, 2, 1}, {3, 4, 1},
                               {3, 8, 1}, {4, 8, 2},  {4, 16, 2}, {6, 8, 4}, {6, 16, 4}};

// What a pixel with these samples looks like: grey scaled to 0..255, the upper 8 of 16 bits.
std::vector<std::uint8_t> expected_pixel(const Layout& layout, const std::uint16_t* samples) {
  if (layout.colour_type == 3) return palette_entry(samples[0]);
  const int highest = (1 << layout.bit_depth) - 1;
  const auto byte = [&](int i) {
    return static_cast<std::uint8_t>(layout.bit_depth == 16 ? samples[i] >> 8
                                                            : samples[i] * 255 / highest);
  };
  const bool is_grey = layout.channels < 3;
  return {byte(0), byte(is_grey ? 0 : 1), byte(is_grey ? 0 : 2)};
}

TEST(Png, EveryKindOfPixelBecomesRgbWithoutItsAlpha) {
  const RandomStream random{.seed = 11, .use = RandomUse::kTest};
  constexpr int kWidth = 21, kHeight = 13;
  for (const Layout& layout : kLayouts) {
    for (const bool interlaced : {false, true}) {
      for (const bool transparent : {false, true}) {
        if (transparent && layout.channels % 2 == 0) continue;  // has alpha already
        SCOPED_TRACE(cat("colour type ", layout.colour_type, ", ", layout.bit_depth, " bits, ",
                         interlaced, transparent));
        std::vector<std::uint16_t> samples;
        for (int i = 0; i < kWidth * kHeight * layout.channels; ++i) {
          samples.push_back(static_cast<std::uint16_t>(
              random.below(static_cast<std::uint64_t>(i), std::uint64_t{1} << layout.bit_depth)));
        }
        const std::string bytes = encode_png({.width = kWidth,
                                              .height = kHeight,
                                              .bit_depth = layout.bit_depth,
                                              .colour_type = layout.colour_type,
                                              .interlaced = interlaced,
                                              .transparent = transparent},
                                             samples);
        Image out;
        const DecodeStatus status = decode(bytes, out);
        ASSERT_TRUE(status.ok) << status.problem;
        EXPECT_EQ(status.first_warning, "");
        ASSERT_EQ(out.width, kWidth);
        ASSERT_EQ(out.height, kHeight);
        std::vector<std::uint8_t> expected;
        for (int i = 0; i < kWidth * kHeight; ++i) {
          const auto pixel = expected_pixel(layout, samples.data() + i * layout.channels);
          expected.insert(expected.end(), pixel.begin(), pixel.end());
        }
        EXPECT_EQ(out.rgb, expected);
      }
    }
  }
}

TEST(Png, SixteenBitsThatHoldFourteenOrFewerAreRefused) {
  for (const auto& [colour_type, channels] : {std::pair{0, 1}, {2, 3}, {4, 2}, {6, 4}}) {
    for (const bool interlaced : {false, true}) {
      const PngLook look{.width = 21,
                         .height = 13,
                         .bit_depth = 16,
                         .colour_type = colour_type,
                         .interlaced = interlaced};
      std::vector<std::uint16_t> samples(static_cast<std::size_t>(21 * 13 * channels), 4095);
      if (channels % 2 == 0) {  // alpha does not count
        for (std::size_t i = 0; i < samples.size(); i += static_cast<std::size_t>(channels)) {
          samples[i + static_cast<std::size_t>(channels) - 1] = 65535;
        }
      }
      Image out;
      const DecodeStatus status = decode(encode_png(look, samples), out);
      EXPECT_FALSE(status.ok);
      EXPECT_TRUE(status.unsupported);
      EXPECT_EQ(status.problem,
                "a PNG of 16-bit samples, whose range is not known (the largest is 4095; want 8 "
                "bits)");
      samples[0] = 16384;
      EXPECT_TRUE(decode(encode_png(look, samples), out).ok);
    }
  }
}

TEST(Png, EveryTruncationIsRefusedUnlessAllPixelsAreThere) {
  const Image image = colourful(40, 30);
  const std::string bytes = encode_png(image);
  Image out;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const DecodeStatus status = decode(bytes.substr(0, size), out);
    if (size < bytes.size() - 12) {  // without the end marker
      ASSERT_FALSE(status.ok) << size;
      ASSERT_NE(status.problem, "") << size;
    } else {
      ASSERT_TRUE(status.ok) << size << status.problem;
      ASSERT_NE(status.first_warning, "");
      ASSERT_EQ(out.rgb, image.rgb);
    }
  }
}

TEST(Png, AFlippedBitIsRefusedOrChangesNoPixel) {
  const Image image = colourful(24, 20);
  for (const bool interlaced : {false, true}) {
    const std::string bytes = encode_png({.width = 24, .height = 20, .interlaced = interlaced},
                                         {image.rgb.begin(), image.rgb.end()});
    Image out;
    int refused = 0;
    for (std::size_t place = 0; place < bytes.size(); ++place) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << place % 8));
      const DecodeStatus status = decode(damaged, out);
      refused += status.ok ? 0 : 1;
      ASSERT_TRUE(!status.ok || out.rgb == image.rgb) << place;
    }
    EXPECT_GT(refused, static_cast<int>(bytes.size()) / 2);
  }
}

TEST(Png, AHeaderThatLiesAboutTheSizeIsRefused) {
  std::string bytes = encode_png(colourful(8, 8));
  bytes[16] = '\x7F';  // 2 billion pixels wide
  Image out;
  EXPECT_THAT(decode(bytes, out).problem, HasSubstr("damaged PNG: a size of 2130706440x8"));
  bytes[16] = bytes[17] = bytes[18] = bytes[19] = 0;
  EXPECT_THAT(decode(bytes, out).problem, HasSubstr("a size of 0x8"));
  EXPECT_EQ(out.rgb.capacity(), 0U);
}

struct TiffKind {
  int photometric, bits, samples;
  std::vector<std::uint16_t> extra;
};
// Grey of both directions, RGB, palette; with alpha, and what follows the colours.
const TiffKind kTiffKinds[] = {{0, 8, 1, {}},  {1, 8, 1, {}},  {1, 8, 2, {2}},    {2, 8, 3, {}},
                               {2, 8, 4, {0}}, {2, 8, 4, {2}}, {2, 8, 5, {2, 0}}, {3, 8, 1, {}},
                               {1, 1, 1, {}},  {1, 4, 1, {}},  {3, 4, 1, {}}};

std::vector<std::uint8_t> expected_pixel(const TiffKind& kind, const std::uint16_t* samples) {
  if (kind.photometric == 3) return palette_entry(samples[0]);
  const int highest = (1 << kind.bits) - 1;
  const auto byte = [&](int i) {
    const int value = kind.photometric == 0 ? highest - samples[i] : samples[i];
    return static_cast<std::uint8_t>(value * 255 / highest);
  };
  return {byte(0), byte(kind.photometric == 2 ? 1 : 0), byte(kind.photometric == 2 ? 2 : 0)};
}

// `look` with random samples; what it should look like in `expected`.
std::string random_tiff(const TiffLook& look, const TiffKind& kind,
                        std::vector<std::uint8_t>& expected) {
  const RandomStream random{.seed = 12, .use = RandomUse::kTest};
  const int pixels = look.width * look.height;
  std::vector<std::uint16_t> samples;
  for (int i = 0; i < pixels * kind.samples; ++i) {
    samples.push_back(static_cast<std::uint16_t>(
        random.below(static_cast<std::uint64_t>(i), std::uint64_t{1} << kind.bits)));
  }
  expected.clear();
  for (int i = 0; i < pixels; ++i) {
    const auto pixel = expected_pixel(kind, samples.data() + i * kind.samples);
    expected.insert(expected.end(), pixel.begin(), pixel.end());
  }
  return encode_tiff(look, samples);
}

TEST(Tiff, EveryKindOfPixelLayoutAndCompressionBecomesRgbWithoutItsAlpha) {
  std::vector<std::uint8_t> expected;
  for (const TiffKind& kind : kTiffKinds) {
    for (const int compression : {1, 5, 8, 32773}) {
      for (const int tile_px : {0, 16}) {
        for (const bool separate : {false, true}) {
          if (separate && (kind.samples == 1 || kind.bits < 8)) continue;
          SCOPED_TRACE(cat("photometric ", kind.photometric, ", ", kind.bits, " bits, ",
                           kind.samples, " samples, compression ", compression, ", tiles ", tile_px,
                           separate ? ", planes" : ""));
          const std::string bytes = random_tiff({.width = 37,
                                                 .height = 23,
                                                 .bits = kind.bits,
                                                 .samples = kind.samples,
                                                 .photometric = kind.photometric,
                                                 .compression = compression,
                                                 .extra = kind.extra,
                                                 .tile_px = tile_px,
                                                 .separate = separate},
                                                kind, expected);
          Image out;
          const DecodeStatus status = decode(bytes, out);
          ASSERT_TRUE(status.ok) << status.problem;
          EXPECT_FALSE(status.truncated) << status.first_warning;
          EXPECT_EQ(out.width, 37);
          EXPECT_EQ(out.height, 23);
          EXPECT_EQ(out.rgb, expected);
        }
      }
    }
  }
}

TEST(Tiff, JpegInsideComesBackNearly) {
  const Image image = colourful(64, 48);
  for (const int photometric : {2, 6}) {  // RGB, YCbCr
    for (const int tile_px : {0, 16}) {
      Image out;
      const DecodeStatus status = decode(encode_tiff({.width = 64,
                                                      .height = 48,
                                                      .photometric = photometric,
                                                      .compression = 7,
                                                      .tile_px = tile_px,
                                                      .rows_per_strip = 16},
                                                     {image.rgb.begin(), image.rgb.end()}),
                                         out);
      ASSERT_TRUE(status.ok) << status.problem;
      EXPECT_FALSE(status.truncated) << status.first_warning;
      ASSERT_EQ(out.rgb.size(), image.rgb.size());
      double sum = 0;
      for (std::size_t i = 0; i < image.rgb.size(); ++i) {
        sum += std::abs(static_cast<double>(image.rgb[i]) - out.rgb[i]);
      }
      EXPECT_LT(sum / static_cast<double>(image.rgb.size()), 16);
    }
  }
}

TEST(Tiff, PremultipliedColoursAreDividedByTheirAlpha) {
  Image out;
  const TiffLook look{.width = 3, .height = 1, .samples = 4, .extra = {1}};
  ASSERT_TRUE(decode(encode_tiff(look, {50, 25, 0, 100, 9, 8, 7, 255, 6, 5, 4, 0}), out).ok);
  EXPECT_EQ(out.rgb, (std::vector<std::uint8_t>{127, 63, 0, 9, 8, 7, 6, 5, 4}));
}

TEST(Tiff, OfSeveralPagesTheFirstIsTaken) {
  std::vector<std::uint8_t> expected;
  Image out;
  for (const bool is_big : {false, true}) {
    const std::string bytes = random_tiff({.is_big = is_big, .pages = 3}, {2, 8, 3, {}}, expected);
    ASSERT_TRUE(decode(bytes, out).ok);
    EXPECT_EQ(out.rgb, expected);
  }
}

TEST(Tiff, OrientationIsReadAndNotApplied) {
  std::vector<std::uint8_t> expected;
  Image out;
  for (const bool is_big : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const std::string bytes =
          random_tiff({.width = 21, .height = 9, .orientation = orientation, .is_big = is_big},
                      {2, 8, 3, {}}, expected);
      EXPECT_EQ(exif_orientation(bytes), orientation);
      ASSERT_TRUE(decode(bytes, out).ok);
      EXPECT_EQ(out.width, 21);
      EXPECT_EQ(out.rgb, expected);
    }
  }
}

TEST(Tiff, WhatIsNoPhotographIsRefusedWithItsReason) {
  const auto refusal = [](const TiffLook& look) {
    const auto samples = static_cast<std::size_t>(look.width * look.height * look.samples);
    Image out;
    const DecodeStatus status = decode(encode_tiff(look, std::vector<std::uint16_t>(samples)), out);
    EXPECT_FALSE(status.ok);
    EXPECT_TRUE(status.unsupported);
    EXPECT_EQ(out.rgb.capacity(), 0U);
    return status.problem;
  };
  EXPECT_THAT(refusal({.bits = 16}), HasSubstr("of 16-bit samples, whose range is not known"));
  EXPECT_THAT(refusal({.bits = 16, .samples = 1, .photometric = 1}), HasSubstr("16-bit"));
  EXPECT_THAT(refusal({.bits = 32, .samples = 1, .photometric = 1, .sample_format = 3}),
              HasSubstr("of 32-bit floating-point samples"));
  EXPECT_THAT(refusal({.samples = 1, .photometric = 1, .sample_format = 2}), HasSubstr("signed"));
  EXPECT_THAT(refusal({.samples = 5, .photometric = 1, .extra = {0, 0, 0, 0}}),
              HasSubstr("of 5 bands that are not colours"));
  EXPECT_THAT(refusal({.samples = 2, .photometric = 1, .extra = {0}}), HasSubstr("of 2 bands"));
  EXPECT_THAT(refusal({.photometric = 8}), HasSubstr("photometric interpretation 8")) << "Lab";
  EXPECT_THAT(refusal({.is_preview = true}), HasSubstr("preview"));
}

TEST(Tiff, EveryTruncationIsRefused) {
  const Image image = colourful(40, 30);
  for (const int compression : {1, 5, 7, 8, 32773}) {
    const std::string bytes =
        encode_tiff({.width = 40, .height = 30, .compression = compression, .rows_per_strip = 8},
                    {image.rgb.begin(), image.rgb.end()});
    Image out;
    for (std::size_t size = 0; size < bytes.size(); size += 3) {
      const DecodeStatus status = decode(bytes.substr(0, size), out);
      ASSERT_FALSE(usable(status, TruncatedPolicy::kRefuse)) << compression << ' ' << size;
      ASSERT_NE(unusable_reason(status, TruncatedPolicy::kRefuse), "") << size;
    }
  }
}

TEST(Tiff, AHeaderThatLiesAboutTheSizeIsRefusedBeforeAnythingIsAllocated) {
  std::string bytes = encode_tiff(colourful(8, 8));
  const std::string width("\x00\x01\x03\x00\x01\x00\x00\x00\x08\x00", 10);
  for (const char tag : {'\x00', '\x01'}) {  // ImageWidth 256, ImageLength 257
    std::string field = width;
    field[0] = tag;
    const std::size_t at = bytes.find(field);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at + 8, 2, "\x00\x30", 2);  // 12288
  }
  Image out;
  EXPECT_THAT(decode(bytes, out).problem, HasSubstr("damaged TIFF: strip 0 is not in the file"));
  EXPECT_EQ(out.rgb.capacity(), 0U);
}

TEST(Tiff, DamageIsToldByTheStatusAlone) {
  testing::internal::CaptureStderr();
  std::string bytes = encode_tiff({.compression = 8}, std::vector<std::uint16_t>(16 * 16 * 3));
  Image out;
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ (1 << place % 8));
    decode(damaged, out);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(WebP, LosslessImagesComeBackExactly) {
  const Image image = colourful(61, 43);
  Image out;
  const DecodeStatus status = decode(encode_webp(image), out);
  ASSERT_TRUE(status.ok) << status.problem;
  EXPECT_EQ(out.width, 61);
  EXPECT_EQ(out.rgb, image.rgb);
}

TEST(WebP, LossyImagesComeBackNearly) {
  const Image image = colourful(64, 48);
  Image out;
  ASSERT_TRUE(decode(encode_lossy_webp(image, 95), out).ok);
  ASSERT_EQ(out.rgb.size(), image.rgb.size());
  double sum = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    sum += std::abs(static_cast<double>(image.rgb[i]) - out.rgb[i]);
  }
  EXPECT_LT(sum / static_cast<double>(image.rgb.size()), 12);  // its chroma is at half the size
}

TEST(WebP, EveryTruncationIsRefused) {
  Image out;
  for (const std::string& bytes :
       {encode_webp(colourful(40, 30)), encode_lossy_webp(colourful(40, 30), 80)}) {
    // The last byte may be padding.
    for (std::size_t size = 0; size + 2 < bytes.size(); ++size) {
      const DecodeStatus status = decode(bytes.substr(0, size), out);
      ASSERT_FALSE(status.ok) << size;
      ASSERT_NE(status.problem, "") << size;
    }
  }
}

TEST(WebP, AnAnimationIsNamed) {
  // The extended header of 8 x 8 pixels with the flag of an animation, and its parameters.
  const std::string extended("VP8X\x0A\0\0\0\x02\0\0\0\x07\0\0\x07\0\0", 18);
  const std::string animation("ANIM\x06\0\0\0\0\0\0\0\0\0", 14);
  const std::string bytes = cat("RIFF", std::string("\x24\0\0\0", 4), "WEBP", extended, animation);
  Image out;
  EXPECT_EQ(decode(bytes, out).problem, "an animated WebP");
}

TEST(ImageFile, APixelTooManyIsRefusedBeforeAnythingIsAllocated) {
  const Image image = colourful(40, 25);
  for (const std::string& bytes :
       {encode_jpeg(image, 80), encode_png(image), encode_tiff(image), encode_webp(image)}) {
    Image out, untouched;
    EXPECT_TRUE(decode(bytes, out, 1000).ok);
    EXPECT_EQ(decode(bytes, untouched, 999).problem,
              "image of 40x25 pixels (the limit is 999 in all)");
    EXPECT_EQ(untouched.rgb.capacity(), 0U);
  }
}

TEST(ImageFile, IsToldByItsContent) {
  const Image image = colourful(32, 20);
  Image out;
  for (const std::string& bytes :
       {encode_jpeg(image, 90), encode_png(image), encode_tiff(image), encode_webp(image)}) {
    EXPECT_TRUE(decode(bytes, out).ok);
    EXPECT_EQ(out.height, 20);
    JpegDecoder decoder;
    int width = 0, height = 0;
    EXPECT_TRUE(read_any_size(bytes, decoder, width, height).ok);
    EXPECT_EQ(width, 32);
    EXPECT_EQ(height, 20);
  }
  EXPECT_EQ(decode("", out).problem, "not a JPEG, PNG, TIFF or WebP: the file is empty");
  EXPECT_EQ(decode("GIF89a", out).problem, "not a JPEG, PNG, TIFF or WebP but a GIF file");
  EXPECT_EQ(decode(std::string("\0\0\0\x0CJXL \r\n\x87\n", 12), out).problem,
            "not a JPEG, PNG, TIFF or WebP but a JPEG XL file: djxl makes a PNG of it");
  EXPECT_EQ(decode(std::string(128, '\0') + "DICM", out).problem,
            "not a JPEG, PNG, TIFF or WebP but a DICOM file: dcmj2pnm (DCMTK) makes a PNG of it");
  for (const std::string& bare :
       {std::string("\x08\0\5\0CS\x0A\0ISO_IR 100", 18),
        std::string("\x08\0\0\0\4\0\0\0\x9A\1\0\0", 12), std::string("\2\0\0\0UL\4\0", 8)}) {
    EXPECT_THAT(decode(bare, out).problem, HasSubstr("but a DICOM file")) << "without a preamble";
  }
  EXPECT_EQ(decode("hello", out).problem,
            "not a JPEG, PNG, TIFF or WebP nor a file of another known format");
}

// Sanitizers watch; whatever comes out has the size that it claims.
TEST(ImageFile, SurvivesRandomDamage) {
  constexpr std::uint64_t kSeed = 5;
  SCOPED_TRACE(cat("seed ", kSeed));
  const Image image = colourful(33, 27);
  const std::vector<std::uint16_t> rgb(image.rgb.begin(), image.rgb.end());
  std::vector<std::string> files = {encode_png(image), encode_webp(image),
                                    encode_lossy_webp(image, 70), encode_jpeg(image, 80)};
  for (const int compression : {1, 5, 7, 8}) {
    for (const int tile_px : {0, 16}) {
      files.push_back(encode_tiff({.width = 33,
                                   .height = 27,
                                   .compression = compression,
                                   .tile_px = tile_px,
                                   .rows_per_strip = 8},
                                  rgb));
    }
  }
  JpegDecoder decoder(1 << 20);
  Image out;
  int usable_count = 0;
  for (std::uint32_t run = 0; run < 4000; ++run) {
    const RandomStream random{.seed = kSeed, .use = RandomUse::kTest, .stream = run};
    std::string bytes = files[run % files.size()];
    const std::uint64_t changes = 1 + random.below(0, 6);
    for (std::uint64_t i = 0; i < changes; ++i) {
      bytes[random.below(3 * i + 1, bytes.size())] = static_cast<char>(random.bits(3 * i + 2));
    }
    if (random.below(100, 4) == 0) bytes.resize(random.below(101, bytes.size()));
    const DecodeStatus status = decode_any_image(bytes, decoder, out);
    ASSERT_EQ(status.ok, status.problem.empty()) << run;
    if (!status.ok) continue;
    ++usable_count;
    ASSERT_EQ(out.rgb.size(),
              static_cast<std::size_t>(out.width) * static_cast<std::size_t>(out.height) * 3)
        << run;
  }
  EXPECT_GT(usable_count, 100);
  EXPECT_LT(usable_count, 3900);
}

}  // namespace
}  // namespace retina
