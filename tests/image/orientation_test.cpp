#include "shared/image/orientation.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/base/file.h"
#include "shared/image/image_file.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// A JPEG's first bytes with an EXIF segment whose only entry is `orientation`.
std::string jpeg_with(int orientation, bool big_endian, int type = 3) {
  const auto number = [&](std::uint32_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) {
      bytes += static_cast<char>(value >> (8 * (big_endian ? size - 1 - i : i)));
    }
    return bytes;
  };
  const std::string tiff =
      std::string(big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(1, 2) +
      number(0x0112, 2) + number(static_cast<std::uint32_t>(type), 2) + number(1, 4) +
      number(static_cast<std::uint32_t>(orientation), 2) + number(0, 2) + number(0, 4);
  const std::string content = std::string("Exif\0\0", 6) + tiff;
  const std::size_t length = content.size() + 2;
  std::string jpeg = "\xFF\xD8\xFF\xE0";
  jpeg += std::string("\0\4ab", 4);  // another segment first
  jpeg += "\xFF\xE1";
  jpeg += static_cast<char>(length >> 8);
  jpeg += static_cast<char>(length);
  return jpeg + content + "\xFF\xDA";
}

TEST(ExifOrientation, IsReadInBothByteOrders) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(exif_orientation(jpeg_with(orientation, false)), orientation);
    EXPECT_EQ(exif_orientation(jpeg_with(orientation, true)), orientation);
  }
}

TEST(ExifOrientation, IsReadOfEveryFormatInMemoryAndFromAFile) {
  const Image image = colourful(20, 10);
  const TestFolder folder;
  for (const std::string& plain : {encode_jpeg(image, 90), encode_png(image), encode_webp(image),
                                   encode_lossy_webp(image, 80)}) {
    const std::string format = image_format(plain);
    EXPECT_EQ(exif_orientation(plain), 1) << format;
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const std::string turned = with_orientation(plain, orientation);
      EXPECT_EQ(exif_orientation(turned), orientation) << format;
      JpegDecoder decoder;
      Image decoded;
      const DecodeStatus status = decode_any_image(turned, decoder, decoded);
      EXPECT_TRUE(status.ok) << format << status.problem;
      EXPECT_EQ(status.first_warning, "");
      write_file_atomically(folder / "image", turned);
      const FileReader file(folder / "image");
      EXPECT_EQ(exif_orientation(ImageBytes(file)), orientation) << format;
    }
  }
}

TEST(ExifOrientation, OfAPngMayComeAfterThePixelsAndOfAWebPBeginWithJpegsMark) {
  const std::string png = with_orientation(encode_png(colourful(20, 10)), 6);
  const std::string chunk = png.substr(33, 38);  // behind the header; the last 12 are the end
  EXPECT_EQ(exif_orientation(png.substr(0, 33) + png.substr(71, png.size() - 83) + chunk +
                             png.substr(png.size() - 12)),
            6);
  std::string webp = with_orientation(encode_webp(colourful(20, 10)), 6);
  const std::size_t exif = webp.rfind("EXIF");
  webp.replace(exif, 8, std::string("EXIF\x20\0\0\0Exif\0\0", 14));
  EXPECT_EQ(exif_orientation(webp), 6);
}

TEST(ExifOrientation, WhatMakesNoSenseIsUpright) {
  EXPECT_EQ(exif_orientation(""), 1);
  EXPECT_EQ(exif_orientation("\xFF\xD8\xFF\xDA"), 1);
  EXPECT_EQ(exif_orientation(jpeg_with(0, false)), 1);
  EXPECT_EQ(exif_orientation(jpeg_with(9, false)), 1);
  EXPECT_EQ(exif_orientation(jpeg_with(6, false, 4)), 1) << "a long, not a short";
}

class DamagedExif : public testing::TestWithParam<std::string> {};

TEST_P(DamagedExif, NoCutAndNoFlippedByteLeadsOutOfTheFile) {
  const std::string whole = GetParam();
  ASSERT_EQ(exif_orientation(whole), 6);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const int orientation = exif_orientation(std::string(whole, 0, size));
    EXPECT_TRUE(orientation == 1 || orientation == 6);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(value);
      const int orientation = exif_orientation(damaged);
      ASSERT_GE(orientation, 1);
      ASSERT_LE(orientation, 8);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DamagedExif,
                         testing::Values(jpeg_with(6, true),
                                         with_orientation(encode_png(colourful(3, 2)), 6),
                                         with_orientation(encode_webp(colourful(3, 2)), 6)));

// The stored image's pixels, by letters:  a b c
//                                           d e f
std::string turned(int orientation) {
  Image stored(3, 2);
  for (std::size_t i = 0; i < 6; ++i) stored.rgb[3 * i] = static_cast<std::uint8_t>('a' + i);
  const Image image = upright(stored, orientation);
  std::string text;
  for (int y = 0; y < image.height; ++y) {
    if (y > 0) text += '/';
    for (int x = 0; x < image.width; ++x) text += static_cast<char>(image.pixel(x, y)[0]);
  }
  return text;
}

// EXIF 2.32, figure of tag 0x0112: which side of the scene the stored row 0 and column 0 are.
TEST(Upright, TurnsEachOrientation) {
  EXPECT_EQ(turned(1), "abc/def");
  EXPECT_EQ(turned(2), "cba/fed");
  EXPECT_EQ(turned(3), "fed/cba");
  EXPECT_EQ(turned(4), "def/abc");
  EXPECT_EQ(turned(5), "ad/be/cf");
  EXPECT_EQ(turned(6), "da/eb/fc");
  EXPECT_EQ(turned(7), "fc/eb/da");
  EXPECT_EQ(turned(8), "cf/be/ad");
}

}  // namespace
}  // namespace retina
