#include "train/augment/augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "shared/numeric/random.h"

namespace retina {
namespace {

constexpr ImageSize kSize = {640, 427};
constexpr std::uint64_t kDraws = 10'000;

Augmentation draw(Augment set, std::uint64_t number) {
  return draw_augmentation(options_of(set), {.seed = 3, .epoch = 2, .draw = number}, kSize);
}

Augmentation draw(const AugmentOptions& options, std::uint64_t number) {
  return draw_augmentation(options, {.seed = 3, .epoch = 2, .draw = number}, kSize);
}

// Collects what was drawn of one figure: all inside its range, filling it evenly.
class Drawn {
 public:
  void add(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    sum_ += value;
    ++count_;
  }
  void expect_fills(const Range& range, const char* name) const {
    const double width = range.high - range.low, slack = 1e-5;
    EXPECT_GE(low_, range.low - slack) << name;
    EXPECT_LE(high_, range.high + slack) << name;
    EXPECT_LT(low_, range.low + 0.002 * width) << name;
    EXPECT_GT(high_, range.high - 0.002 * width) << name;
    // 5 standard errors of the mean of 10,000.
    EXPECT_NEAR(sum_ / count_, (range.low + range.high) / 2, 5 * width / std::sqrt(12.0) / 100)
        << name;
  }

 private:
  double low_ = 1e9, high_ = -1e9, sum_ = 0;
  int count_ = 0;
};

// Contrast, brightness, saturation and hue back from the matrix.
ColourChange change_of(const ColourMatrix& colour) {
  const auto apply = [&](const std::array<double, 3>& rgb) {
    std::array<double, 3> out{};
    for (std::size_t c = 0; c < 3; ++c) {
      out[c] = static_cast<double>(colour.m[4 * c + 3]);
      for (std::size_t k = 0; k < 3; ++k) {
        out[c] += static_cast<double>(colour.m[4 * c + k]) * rgb[k];
      }
    }
    return out;
  };
  const auto chroma = [](const std::array<double, 3>& rgb) {
    return std::array<double, 2>{0.596 * rgb[0] - 0.274 * rgb[1] - 0.322 * rgb[2],
                                 0.211 * rgb[0] - 0.523 * rgb[1] + 0.312 * rgb[2]};
  };
  const auto length = [](const std::array<double, 2>& v) { return std::hypot(v[0], v[1]); };
  const auto angle = [](const std::array<double, 2>& v) { return std::atan2(v[1], v[0]); };
  const std::array<double, 3> orange{0.6, 0.5, 0.4};
  const auto before = chroma(orange), after = chroma(apply(orange));
  const double contrast = apply({1, 1, 1})[0] - apply({0, 0, 0})[0];
  return {.contrast = contrast,
          .brightness = apply({0.5, 0.5, 0.5})[1] - 0.5,
          .saturation = length(after) / length(before) / contrast,
          .hue = (angle(after) - angle(before)) / (2 * std::numbers::pi)};
}

void expect_colours(Augment set) {
  Drawn contrast, brightness, saturation, hue;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const ColourChange change = change_of(draw(set, i).warp->colour);
    contrast.add(change.contrast);
    brightness.add(change.brightness);
    saturation.add(change.saturation);
    hue.add(change.hue);
  }
  contrast.expect_fills({0.9, 1.1}, "contrast");
  brightness.expect_fills({-0.1, 0.1}, "brightness");
  saturation.expect_fills({0.95, 1.05}, "saturation");
  hue.expect_fills({-0.05, 0.05}, "hue");
}

// The rule that runs were made with before there were sets.
bool plain_flip(std::uint64_t seed, std::int64_t epoch, std::uint64_t number, double probability) {
  const RandomStream stream{
      .seed = seed, .use = RandomUse::kAugment, .stream = static_cast<std::uint32_t>(epoch)};
  return stream.unit(number) < probability;
}

TEST(Augmentation, AllSetsMirrorTheSameImages) {
  for (const double probability : {0.0, 0.3, 1.0}) {
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t number = i % 50 + ((i / 50) << 32);
      const bool want = plain_flip(9, 4, number, probability);
      for (const Augment set : {Augment::kFlip, Augment::kLight, Augment::kStrong}) {
        AugmentOptions options = options_of(set);
        options.flip = probability;
        const Augmentation drawn =
            draw_augmentation(options, {.seed = 9, .epoch = 4, .draw = number}, kSize);
        ASSERT_EQ(drawn.flip, want);
        ASSERT_EQ(drawn.warp.has_value(), set != Augment::kFlip);
      }
    }
  }
}

TEST(Augmentation, NoneChangesNothing) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Augmentation drawn = draw(Augment::kNone, i);
    EXPECT_FALSE(drawn.flip);
    EXPECT_FALSE(drawn.warp.has_value());
  }
}

TEST(Augmentation, ColoursFillKerasRetinanetsRanges) {
  expect_colours(Augment::kLight);
  expect_colours(Augment::kStrong);
}

// In pixels about the middle: rotation by a, shear by s and the scales x, y make the columns
// x (cos a, sin a) and y (-sin(a + s), cos(a + s)).
TEST(Augmentation, LightGeometryFillsKerasRetinanetsRanges) {
  Drawn rotation, shear, scale_x, scale_y, shift_x, shift_y;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const Warp warp = *draw(Augment::kLight, i).warp;
    EXPECT_EQ(warp.fill, Fill::kNearest);
    const Affine forward = inverse(warp.source_of);
    const double aspect = static_cast<double>(kSize.width) / kSize.height;
    const auto& m = forward.m;
    const double a = std::atan2(m[3] / aspect, m[0]);
    rotation.add(a);
    shear.add(std::atan2(-m[1] * aspect, m[4]) - a);
    scale_x.add(std::hypot(m[0], m[3] / aspect));
    scale_y.add(std::hypot(m[1] * aspect, m[4]));
    const auto [x, y] = forward(0.5, 0.5);
    shift_x.add(std::cos(a) * (x - 0.5) + std::sin(a) * (y - 0.5));
    shift_y.add(-std::sin(a) * (x - 0.5) + std::cos(a) * (y - 0.5));
  }
  rotation.expect_fills({-0.1, 0.1}, "rotation");
  shear.expect_fills({-0.1, 0.1}, "shear");
  scale_x.expect_fills({0.9, 1.1}, "scale x");
  scale_y.expect_fills({0.9, 1.1}, "scale y");
  shift_x.expect_fills({-0.1, 0.1}, "translation x");
  shift_y.expect_fills({-0.1, 0.1}, "translation y");
}

TEST(Augmentation, StrongScalesWithTheImageInsideTheCanvasOrAroundIt) {
  Drawn scale, place;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const Warp warp = *draw(Augment::kStrong, i).warp;
    EXPECT_EQ(warp.fill, Fill::kConstant);
    const auto m = inverse(warp.source_of).m;
    ASSERT_NEAR(m[0], m[4], 1e-9);
    ASSERT_NEAR(std::abs(m[1]) + std::abs(m[3]), 0, 1e-9);
    scale.add(m[0]);
    for (const double from : {m[2], m[5]}) {
      ASSERT_GE(from, std::min(0.0, 1 - m[0]) - 1e-9);
      ASSERT_LE(from, std::max(0.0, 1 - m[0]) + 1e-9);
    }
    if (std::abs(1 - m[0]) > 0.01) place.add(m[2] / (1 - m[0]));
  }
  scale.expect_fills({0.1, 2}, "scale");
  place.expect_fills({0, 1}, "place");
}

TEST(Augmentation, VerticalFlipMirrorsTheAskedShareTopBottom) {
  const AugmentOptions options{.vertical_flip = 0.3};
  int mirrored = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const auto warp = draw(options, i).warp;
    if (!warp) continue;
    ++mirrored;
    EXPECT_EQ(warp->source_of.m, (std::array<double, 6>{1, 0, 0, 0, -1, 1}));
    EXPECT_EQ(warp->colour.m, ColourMatrix{}.m);
  }
  EXPECT_NEAR(mirrored, 0.3 * kDraws, 5 * std::sqrt(0.21 * kDraws));
}

// All that is seen lies inside the image; the area fills its range, the sides keep theirs.
TEST(Augmentation, CropsAPartOfTheAskedArea) {
  const AugmentOptions options{.crop = {0.2, 1}};
  Drawn area, ratio, place;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const auto m = draw(options, i).warp->source_of.m;
    const double width = m[0], height = m[4];
    ASSERT_NEAR(std::abs(m[1]) + std::abs(m[3]), 0, 1e-12);
    ASSERT_GE(std::min(m[2], m[5]), -1e-9);
    ASSERT_LE(std::max(m[2] + width, m[5] + height), 1 + 1e-9);
    area.add(width * height);
    const double widest = std::log(std::min(4.0 / 3, 1 / (width * height)));
    if (widest > 0.01) ratio.add(std::log(width / height) / widest);
    if (width < 0.99) place.add(m[2] / (1 - width));
  }
  area.expect_fills({0.2, 1}, "area");
  ratio.expect_fills({-1, 1}, "ratio");
  place.expect_fills({0, 1}, "place");
}

TEST(Augmentation, DetailsReplaceThoseOfTheSetAndLeaveTheOthersDraws) {
  AugmentOptions options = options_of(Augment::kLight);
  options.rotation_rad = 0;
  options.fill = Fill::kConstant;
  Drawn shift;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Warp whole = *draw(Augment::kLight, i).warp, changed = *draw(options, i).warp;
    EXPECT_EQ(changed.colour.m, whole.colour.m);
    EXPECT_EQ(changed.fill, Fill::kConstant);
    EXPECT_NEAR(inverse(changed.source_of).m[3], 0, 1e-12) << "only rotation tilts the rows";
    EXPECT_NEAR(inverse(changed.source_of).m[0],
                std::hypot(inverse(whole.source_of).m[0],
                           inverse(whole.source_of).m[3] * kSize.height / kSize.width),
                1e-9)
        << "the same scale";
  }
}

// Recorded from the first version with sets: a run is continued with the draws it began with.
TEST(Augmentation, SetsDrawWhatTheyAlwaysDrew) {
  const DrawKey key{.seed = 5, .epoch = 1, .draw = 7};
  const ImageSize size{640, 434};
  const std::array<double, 6> light{0.98931912315861459,   -0.088655753711834401,
                                    -0.040362353554107708, 0.051276714613142524,
                                    0.94950665014227953,   -0.086530979457639295};
  const std::array<double, 6> strong{
      0.89869649000032381, 0, 0.092206968889492896, 0, 0.89869649000032381, 0.026281458058323746};
  const std::array<float, 12> colour{1.10267222F,    0.115142636F,  -0.15193367F,  -0.114084996F,
                                     -0.0950321108F, 1.06749773F,   0.0934156179F, -0.114084996F,
                                     0.392836213F,   -0.310320437F, 0.983365417F,  -0.114084996F};
  for (const auto& [set, want] : {std::pair{Augment::kLight, light}, {Augment::kStrong, strong}}) {
    const Augmentation drawn = draw_augmentation(options_of(set), key, size);
    EXPECT_TRUE(drawn.flip);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(drawn.warp->source_of.m[i], want[i], 1e-14);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(drawn.warp->colour.m[i], colour[i], 1e-6);
  }
}

TEST(Augmentation, DependsOnSeedEpochImageAndCopy) {
  std::set<std::vector<double>> drawn;
  const auto add = [&](const DrawKey& key) {
    const auto m = draw_augmentation(options_of(Augment::kStrong), key, kSize).warp->source_of.m;
    drawn.insert({m.begin(), m.end()});
  };
  const DrawKey key{.seed = 1, .epoch = 1, .draw = 1};
  add(key);
  add(key);
  EXPECT_EQ(drawn.size(), 1U);
  add({.seed = 2, .epoch = 1, .draw = 1});
  add({.seed = 1, .epoch = 2, .draw = 1});
  add({.seed = 1, .epoch = 1, .draw = 2});
  add({.seed = 1, .epoch = 1, .draw = 1 + (std::uint64_t{1} << 32)});
  EXPECT_EQ(drawn.size(), 5U);
}

constexpr FrameRule kSquare = {.framing = Framing::kSquare, .min_side_px = 224, .max_side_px = 256};

// What part of the image an upright warp shows, in fractions.
struct Window {
  double left = 0, top = 0, width = 0, height = 0;
};
Window window_of(const Augmentation& augmentation) {
  const auto& m = augmentation.warp.value().source_of.m;
  EXPECT_EQ(m[1], 0);
  EXPECT_EQ(m[3], 0);
  return {.left = m[2], .top = m[5], .width = m[0], .height = m[4]};
}

TEST(SquareFrame, CropsLieInsideTheImageWithTheSharesAndRatiosOfRandomResizedCrop) {
  Drawn share, log_ratio, place;
  const AugmentOptions options = options_of(Augment::kCrop);
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const DrawKey key = {.seed = 3, .epoch = 2, .draw = i};
    const Window window = window_of(draw_augmentation(options, key, kSize, kSquare));
    ASSERT_GE(window.left, -1e-12);
    ASSERT_GE(window.top, -1e-12);
    ASSERT_LE(window.left + window.width, 1 + 1e-12);
    ASSERT_LE(window.top + window.height, 1 + 1e-12);
    const double width = window.width * kSize.width, height = window.height * kSize.height;
    const double area = window.width * window.height;
    const double ratio = width / height;
    ASSERT_GE(ratio, 3.0 / 4 - 1e-9);
    ASSERT_LE(ratio, 4.0 / 3 + 1e-9);
    if (area < 0.4) {  // here every ratio fits
      share.add(area);
      log_ratio.add(std::log(ratio));
    }
    if (window.width < 0.9) place.add(window.left / (1 - window.width));
  }
  log_ratio.expect_fills({std::log(3.0 / 4), std::log(4.0 / 3)}, "log ratio");
  place.expect_fills({0, 1}, "place");
  share.expect_fills({0.08, 0.4}, "share");
}

TEST(SquareFrame, OfALongImageCropsAsMuchAsTheRatioAllows) {
  const AugmentOptions options{.crop = {1, 1 - 1e-12}};
  const Window window = window_of(draw_augmentation(options, {}, {1000, 100}, kSquare));
  EXPECT_NEAR(window.height, 1, 1e-9);
  EXPECT_NEAR(window.width * 1000 / 100, 4.0 / 3, 1e-9);
}

TEST(SquareFrame, WithoutACropShowsTheMiddle) {
  const Augmentation plain = draw_augmentation({}, {}, kSize, kSquare);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(plain.warp->source_of.m[i], middle_square(kSize, kSquare).m[i], 1e-15);
  }
}

// Keras' width_shift_range and height_shift_range.
TEST(SquareFrame, TranslationsAreSharesOfTheSquare) {
  Drawn shift;
  const ImageSize size = {32, 32};
  const FrameRule rule = {.framing = Framing::kSquare, .min_side_px = 32, .max_side_px = 32};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const DrawKey key = {.seed = 3, .epoch = 2, .draw = i};
    const Window window = window_of(draw_augmentation({.translation = 0.1}, key, size, rule));
    ASSERT_NEAR(window.width, 1, 1e-12);
    shift.add(window.left);
  }
  shift.expect_fills({-0.1, 0.1}, "shift");
}

TEST(SquareFrame, MirrorsAsWithoutIt) {
  const AugmentOptions options = options_of(Augment::kCrop);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const DrawKey key = {.seed = 3, .epoch = 2, .draw = i};
    EXPECT_EQ(draw_augmentation(options, key, kSize, kSquare).flip, draw(Augment::kFlip, i).flip);
  }
}

}  // namespace
}  // namespace retina
