#include "shared/image/warp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "shared/numeric/random.h"

namespace retina {
namespace {

// Changes slowly from pixel to pixel, in another way in each channel.
Image smooth_image(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double u = (x + 0.5) / width, v = (y + 0.5) / height;
      const std::array<double, 3> rgb{u, v, 0.5 + 0.5 * std::sin(3 * u + 2 * v)};
      for (std::size_t c = 0; c < 3; ++c) {
        image.pixel(x, y)[c] = static_cast<std::uint8_t>(std::lround(20 + 210 * rgb[c]));
      }
    }
  }
  return image;
}

Image noise_image(int width, int height) {
  const RandomStream random{.seed = 5};
  Image image(width, height);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<std::uint8_t>(random.below(i, 256));
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

// Planes that are 3 wider and higher than the target, NaN before.
Planes empty_planes(const ImageSize& size, bool flip) {
  Planes planes;
  planes.target = {.width = size.width,
                   .height = size.height,
                   .row_stride = size.width + 3,
                   .plane_stride = std::int64_t{size.width + 3} * (size.height + 3),
                   .flip = flip};
  planes.values.assign(static_cast<std::size_t>(3 * planes.target.plane_stride),
                       std::numeric_limits<float>::quiet_NaN());
  return planes;
}

Planes warped(const Image& image, const ImageSize& size, const Warp& warp, bool flip = false) {
  Planes planes = empty_planes(size, flip);
  warp_normalise(image, planes.target, warp, Normalisation{}, planes.values.data());
  return planes;
}

Planes resized(const Image& image, const ImageSize& size, bool flip) {
  Planes planes = empty_planes(size, flip);
  resize_normalise(image, planes.target, Normalisation{}, planes.values.data());
  return planes;
}

// Grey levels between 0 and 255 of a normalised value.
double grey_level(double value, int channel) {
  const Normalisation n;
  const auto c = static_cast<std::size_t>(channel);
  return 255 * (value * static_cast<double>(n.std[c]) + static_cast<double>(n.mean[c]));
}

double at_clamped(const Image& image, int x, int y, int c) {
  return image.pixel(std::clamp(x, 0, image.width - 1), std::clamp(y, 0, image.height - 1))[c];
}

// Bilinear in f64 at (x, y), edge pixels repeated, in grey levels.
double bilinear(const Image& image, double x, double y, int c) {
  const double left = std::floor(x), top = std::floor(y);
  const double fx = x - left, fy = y - top;
  const int x0 = static_cast<int>(left), y0 = static_cast<int>(top);
  return (1 - fy) *
             ((1 - fx) * at_clamped(image, x0, y0, c) + fx * at_clamped(image, x0 + 1, y0, c)) +
         fy * ((1 - fx) * at_clamped(image, x0, y0 + 1, c) +
               fx * at_clamped(image, x0 + 1, y0 + 1, c));
}

double worst_difference(const Planes& a, const Planes& b) {
  double worst = 0;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < a.target.height; ++y) {
      for (int x = 0; x < a.target.width; ++x) {
        worst = std::max(worst, std::abs(static_cast<double>(a.at(c, y, x)) - b.at(c, y, x)));
      }
    }
  }
  return worst;
}

TEST(Warp, IdentityIsThePlainResize) {
  for (const bool flip : {false, true}) {
    for (const ImageSize size : {ImageSize{64, 48}, ImageSize{97, 61}, ImageSize{23, 31}}) {
      const Image smooth = smooth_image(64, 48);
      EXPECT_LT(worst_difference(warped(smooth, size, {}, flip), resized(smooth, size, flip)), 1e-5)
          << size.width << " " << flip;
      const Image noise = noise_image(16, 12);
      EXPECT_LT(worst_difference(warped(noise, size, {}, flip), resized(noise, size, flip)), 1e-5)
          << size.width << " " << flip;
    }
  }
}

TEST(Warp, WritesItsRectangleAndNothingElse) {
  const Planes planes =
      warped(noise_image(13, 9), {21, 17}, {.source_of = {{0.9, 0.1, 0, -0.2, 1.1, 0.1}}});
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 20; ++y) {
      for (int x = 0; x < 24; ++x) {
        ASSERT_EQ(std::isnan(planes.at(c, y, x)), x >= 21 || y >= 17);
      }
    }
  }
}

// Any geometry and fill, on noise, against the formula in f64.
TEST(Warp, EqualsTheFormula) {
  const RandomStream random{.seed = 11};
  std::uint64_t draw = 0;
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.unit(draw++);
  };
  int filled = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const Image image = noise_image(10 + trial, 50 - trial);
    // Many source pixels to each of the output, or few.
    const ImageSize size = trial % 3 == 0 ? ImageSize{9, 7} : ImageSize{30, 20 + trial};
    const Warp warp{.source_of = {{between(-2, 2), between(-1, 1), between(-0.5, 1), between(-1, 1),
                                   between(-2, 2), between(-0.5, 1)}},
                    .fill = trial % 2 == 0 ? Fill::kConstant : Fill::kNearest};
    const Planes planes = warped(image, size, warp);
    const auto& m = warp.source_of.m;
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        const double u = (x + 0.5) / size.width, v = (y + 0.5) / size.height;
        const double from_x = (m[0] * u + m[1] * v + m[2]) * image.width - 0.5;
        const double from_y = (m[3] * u + m[4] * v + m[5]) * image.height - 0.5;
        const bool outside = from_x < -0.5 || from_x > image.width - 0.5 || from_y < -0.5 ||
                             from_y > image.height - 0.5;
        for (int c = 0; c < 3; ++c) {
          if (outside && warp.fill == Fill::kConstant) {
            ASSERT_EQ(planes.at(c, y, x), 0.0F);
            ++filled;
          } else {
            ASSERT_NEAR(grey_level(planes.at(c, y, x), c), bilinear(image, from_x, from_y, c),
                        1e-3);
          }
        }
      }
    }
  }
  EXPECT_GT(filled, 1000);
}

TEST(Warp, BoxesFollowThePixels) {
  const RandomStream random{.seed = 12};
  std::uint64_t draw = 0;
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.unit(draw++);
  };
  for (int trial = 0; trial < 200; ++trial) {
    const bool flip = trial % 2 == 0;
    const WarpSizes sizes{.from = {640, 427}, .to = {1199, 800}, .flip = flip};
    // Forward here: from fractions of the source to those of the output.
    const std::array<double, 6> f{between(0.5, 2),    between(-0.3, 0.3), between(-0.5, 0.5),
                                  between(-0.3, 0.3), between(0.5, 2),    between(-0.5, 0.5)};
    const Warp warp{.source_of = inverse(Affine{f})};
    const std::array<float, 4> box{
        static_cast<float>(between(0, 300)), static_cast<float>(between(0, 200)),
        static_cast<float>(between(310, 640)), static_cast<float>(between(210, 427))};
    std::array<double, 4> want{1e9, 1e9, -1e9, -1e9};
    for (const float corner_x : {box[0], box[2]}) {
      for (const float corner_y : {box[1], box[3]}) {
        const double u = (flip ? 640.0 - corner_x : 1.0 * corner_x) / 640, v = corner_y / 427.0;
        const double x = (f[0] * u + f[1] * v + f[2]) * 1199;
        const double y = (f[3] * u + f[4] * v + f[5]) * 800;
        want = {std::min(want[0], x), std::min(want[1], y), std::max(want[2], x),
                std::max(want[3], y)};
      }
    }
    const auto hull = warped_hull(box, warp, sizes);
    for (std::size_t i = 0; i < 4; ++i) ASSERT_NEAR(hull[i], want[i], 1e-3) << trial;
  }
}

std::array<double, 3> coloured(const ColourChange& change, const std::array<double, 3>& rgb) {
  const ColourMatrix colour = colour_matrix(change);
  std::array<double, 3> out{};
  for (std::size_t c = 0; c < 3; ++c) {
    out[c] = static_cast<double>(colour.m[4 * c + 3]);
    for (std::size_t k = 0; k < 3; ++k) out[c] += static_cast<double>(colour.m[4 * c + k]) * rgb[k];
  }
  return out;
}

double luma(const std::array<double, 3>& rgb) {
  return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

TEST(ColourMatrix, EachChangeIsItsFormula) {
  const std::array<double, 3> rgb{0.7, 0.4, 0.2};
  const auto contrast = coloured({.contrast = 1.1}, rgb);
  const auto brightness = coloured({.brightness = -0.1}, rgb);
  const auto saturation = coloured({.saturation = 0.9}, rgb);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(contrast[c], 0.5 + 1.1 * (rgb[c] - 0.5), 1e-6);
    EXPECT_NEAR(brightness[c], rgb[c] - 0.1, 1e-6);
    EXPECT_NEAR(saturation[c], luma(rgb) + 0.9 * (rgb[c] - luma(rgb)), 1e-6);
  }
}

// The chroma (I, Q) turns by that angle and keeps its length and luma; greys stay.
TEST(ColourMatrix, HueTurnsTheChroma) {
  const auto chroma = [](const std::array<double, 3>& rgb) {
    return std::array<double, 2>{0.596 * rgb[0] - 0.274 * rgb[1] - 0.322 * rgb[2],
                                 0.211 * rgb[0] - 0.523 * rgb[1] + 0.312 * rgb[2]};
  };
  const std::array<double, 3> rgb{0.7, 0.4, 0.2};
  for (const double turns : {-0.05, 0.05, 0.25, 1.0}) {
    const auto out = coloured({.hue = turns}, rgb);
    const double angle = 2 * std::numbers::pi * turns;
    const auto [i, q] = chroma(rgb);
    EXPECT_NEAR(luma(out), luma(rgb), 1e-6);
    EXPECT_NEAR(chroma(out)[0], i * std::cos(angle) - q * std::sin(angle), 1e-6);
    EXPECT_NEAR(chroma(out)[1], i * std::sin(angle) + q * std::cos(angle), 1e-6);
    for (const double value : coloured({.hue = turns}, {0.3, 0.3, 0.3})) {
      EXPECT_NEAR(value, 0.3, 1e-6);
    }
  }
}

// Colour comes before the normalisation and is clipped to what a photograph can hold.
TEST(Warp, ColoursAreChangedAndClipped) {
  const Image image = smooth_image(64, 48);
  const ColourChange change{.contrast = 1.5, .brightness = 0.1, .saturation = 1.3, .hue = 0.04};
  const Planes planes = warped(image, {64, 48}, {.colour = colour_matrix(change)});
  int clipped = 0;
  for (int y = 0; y < 48; ++y) {
    for (int x = 0; x < 64; ++x) {
      const std::uint8_t* const pixel = image.pixel(x, y);
      const auto rgb = coloured(change, {pixel[0] / 255.0, pixel[1] / 255.0, pixel[2] / 255.0});
      for (int c = 0; c < 3; ++c) {
        const double value = rgb[static_cast<std::size_t>(c)];
        clipped += value < 0 || value > 1 ? 1 : 0;
        ASSERT_NEAR(grey_level(planes.at(c, y, x), c), 255 * std::clamp(value, 0.0, 1.0), 1e-3);
      }
    }
  }
  EXPECT_GT(clipped, 100);
}

}  // namespace
}  // namespace retina
