#include <gtest/gtest.h>

#include "shared/image/resize.h"

namespace retina {
namespace {

TEST(Shrink, SameSizeIsTheSameImage) {
  Image image(7, 5);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(shrink(image, {.width = 7, .height = 5}).rgb, image.rgb);
}

TEST(Shrink, WholeFactorsAverageTheirBlock) {
  Image image(4, 2);
  for (int x = 0; x < 4; ++x) {
    image.pixel(x, 0)[1] = static_cast<std::uint8_t>(10 * x);
    image.pixel(x, 1)[1] = static_cast<std::uint8_t>(10 * x + 40);
  }
  const Image small = shrink(image, {.width = 2, .height = 1});
  EXPECT_EQ(small.pixel(0, 0)[1], 25);  // 0 10 40 50
  EXPECT_EQ(small.pixel(1, 0)[1], 45);  // 20 30 60 70
  EXPECT_EQ(small.pixel(0, 0)[0], 0);
}

TEST(Shrink, AConstantStaysConstantAtEveryRatio) {
  Image image(53, 31);
  std::fill(image.rgb.begin(), image.rgb.end(), std::uint8_t{200});
  for (int width = 1; width <= 53; width += 4) {
    for (int height = 1; height <= 31; height += 3) {
      const Image small = shrink(image, {.width = width, .height = height});
      for (const std::uint8_t value : small.rgb) ASSERT_EQ(value, 200) << width << 'x' << height;
    }
  }
}

}  // namespace
}  // namespace retina
