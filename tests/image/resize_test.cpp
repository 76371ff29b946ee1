#include "shared/image/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "shared/numeric/random.h"

namespace retina {
namespace {

const std::string kGoldens = std::string(RETINA_SOURCE_DIR) + "/tests/image/golden/";

// The image of golden/make_golden.py.
Image pattern(int width, int height) {
  Image image(width, height);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        image.pixel(static_cast<int>(x), static_cast<int>(y))[c] =
            static_cast<std::uint8_t>((x * 7 + y * 13 + c * 29 + x * y) % 256);
      }
    }
  }
  return image;
}

struct Planes {
  ResizeTarget target;
  std::vector<float> values;
  float at(int c, int y, int x) const {
    return values[static_cast<std::size_t>(c * target.plane_stride + y * target.row_stride + x)];
  }
};

// Resizes into planes that are `margin` wider and higher, filled with NaN before.
Planes resize(const Image& image, int width, int height, int margin, bool flip) {
  Planes planes;
  planes.target = {.width = width,
                   .height = height,
                   .row_stride = width + margin,
                   .plane_stride = std::int64_t{width + margin} * (height + margin),
                   .flip = flip};
  planes.values.assign(static_cast<std::size_t>(3 * planes.target.plane_stride),
                       std::numeric_limits<float>::quiet_NaN());
  resize_normalise(image, planes.target, Normalisation{}, planes.values.data());
  return planes;
}

TEST(Resize, EqualsTheReference) {
  std::ifstream file(kGoldens + "resize.txt");
  ASSERT_TRUE(file) << kGoldens;
  std::string line, word;
  Planes planes;
  int compared = 0;
  double worst = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    if (line.starts_with("case")) {
      int from_width = 0, from_height = 0, width = 0, height = 0;
      words >> word >> from_width >> from_height >> width >> height;
      planes = resize(pattern(from_width, from_height), width, height, 3, false);
      continue;
    }
    int c = 0, y = 0, x = 0;
    float want = 0;
    words >> c >> y >> x >> want;
    worst = std::max(worst, std::abs(static_cast<double>(planes.at(c, y, x)) - want));
    ASSERT_NEAR(planes.at(c, y, x), want, 1e-6) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 12 * 64);
  RecordProperty("worst", std::to_string(worst));
}

// resize.h's formula for one value, in the order of f32 operations that the weights were trained
// with: normalise, along x, along y; nothing fused but the coordinate.
float plain_value(const Image& image, const ResizeTarget& target, int c, int y, int x) {
  const Normalisation normalisation;
  struct Tap {
    int first, second;
    float first_weight, second_weight;
  };
  const auto tap = [](int from, int to, int i) {
    float source = static_cast<float>(i);
    if (from != to) {
      const float scale = static_cast<float>(from) / static_cast<float>(to);
      source = std::max(0.0F, std::fma(scale, static_cast<float>(i) + 0.5F, -0.5F));
    }
    const int first = std::min(static_cast<int>(source), from - 1);
    const float fraction = std::clamp(source - static_cast<float>(first), 0.0F, 1.0F);
    return Tap{first, std::min(first + 1, from - 1), 1.0F - fraction, fraction};
  };
  const Tap column = tap(image.width, target.width, target.flip ? target.width - 1 - x : x);
  const Tap row = tap(image.height, target.height, y);
  const auto channel = static_cast<std::size_t>(c);
  const auto along_x = [&](int source_y) {
    const auto level = [&](int source_x) {
      const auto byte = static_cast<float>(image.pixel(source_x, source_y)[c]);
      return (byte / 255.0F - normalisation.mean[channel]) / normalisation.std[channel];
    };
    const float left = column.first_weight * level(column.first);
    const float right = column.second_weight * level(column.second);
    return left + right;
  };
  const float upper = row.first_weight * along_x(row.first);
  const float lower = row.second_weight * along_x(row.second);
  return upper + lower;
}

TEST(Resize, HasTheBitsOfThePlainFormulaForEverySize) {
  constexpr std::uint64_t kSeed = 14;
  SCOPED_TRACE(kSeed);
  const RandomStream random{.seed = kSeed, .use = RandomUse::kSynthetic};
  std::uint64_t draw = 0;
  const auto side = [&](std::uint64_t most) {
    return 1 + static_cast<int>(random.below(draw++, most));
  };
  for (int round = 0; round < 400; ++round) {
    const bool keeps_width = round % 7 == 0, keeps_height = round % 5 == 0;
    const Image image = pattern(side(90), side(40));
    const int width = keeps_width ? image.width : side(160);
    const int height = keeps_height ? image.height : side(60);
    const Planes planes = resize(image, width, height, side(9) - 1, round % 2 == 1);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const float want = plain_value(image, planes.target, c, y, x);
          ASSERT_EQ(std::bit_cast<std::uint32_t>(planes.at(c, y, x)),
                    std::bit_cast<std::uint32_t>(want))
              << image.width << 'x' << image.height << " to " << width << 'x' << height
              << (planes.target.flip ? ", flipped" : "") << ": " << c << ' ' << y << ' ' << x;
        }
      }
    }
  }
}

TEST(Resize, WritesItsRectangleAndNothingElse) {
  const Planes planes = resize(pattern(13, 9), 21, 17, 4, false);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 21; ++y) {
      for (int x = 0; x < 25; ++x) {
        ASSERT_EQ(std::isnan(planes.at(c, y, x)), x >= 21 || y >= 17) << c << ' ' << y << ' ' << x;
      }
    }
  }
}

TEST(Resize, SizesEqualTheReference) {
  std::ifstream file(kGoldens + "sizes.txt");
  ASSERT_TRUE(file) << kGoldens;
  std::string line;
  int compared = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    int width = 0, height = 0, low = 0, high = 0, want_width = 0, want_height = 0;
    words >> width >> height >> low >> high >> want_width >> want_height;
    const ResizedSize size = resized_size(width, height, low, high);
    ASSERT_EQ(size.width, want_width) << line;
    ASSERT_EQ(size.height, want_height) << line;
    ++compared;
  }
  EXPECT_GE(compared, 300);
}

TEST(Resize, NoSideBecomesZero) {
  const ResizedSize size = resized_size(65500, 1, 800, 1333);
  EXPECT_EQ(size.width, 1333);
  EXPECT_EQ(size.height, 1);
}

TEST(Resize, BoxesScalePerAxisByTheSizesRatio) {
  const auto box =
      resize_box({10, 20, 320, 480}, {.width = 640, .height = 480}, {.width = 1066, .height = 800});
  const float x = 1066.0F / 640.0F, y = 800.0F / 480.0F;
  EXPECT_EQ(box[0], 10 * x);
  EXPECT_EQ(box[1], 20 * y);
  EXPECT_EQ(box[2], 320 * x);
  EXPECT_EQ(box[3], 480 * y);
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
