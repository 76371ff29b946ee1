#include "shared/image/orientation.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/base/cat.h"

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

TEST(ExifOrientation, WhatMakesNoSenseIsUpright) {
  EXPECT_EQ(exif_orientation(""), 1);
  EXPECT_EQ(exif_orientation("\xFF\xD8\xFF\xDA"), 1);
  EXPECT_EQ(exif_orientation(jpeg_with(0, false)), 1);
  EXPECT_EQ(exif_orientation(jpeg_with(9, false)), 1);
  EXPECT_EQ(exif_orientation(jpeg_with(6, false, 4)), 1) << "a long, not a short";
}

TEST(ExifOrientation, NoCutAndNoFlippedByteLeadsOutOfTheFile) {
  const std::string whole = jpeg_with(6, true);
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
