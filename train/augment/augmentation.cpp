#include "train/augment/augmentation.h"

#include <cmath>

#include "shared/base/random.h"

namespace retina {
namespace {

// Keeps these draws apart from the mirror's and from the step's size.
constexpr std::uint64_t kWarpSeedOffset = 0xA24BAED4963EE407;
constexpr int kNumberBits = 4;  // a draw has 16 numbers

// What a number is for: its place among the draw's. Changing one changes every augmented run.
enum class Number : std::uint64_t {
  kContrast = 0,
  kBrightness = 1,
  kSaturation = 2,
  kHue = 3,
  kRotation = 4,
  kTranslationX = 5,
  kTranslationY = 6,
  kShear = 7,
  kScaleX = 8,
  kScaleY = 9,
  kPlaceX = 10,
  kPlaceY = 11,
};

class Numbers {
 public:
  explicit Numbers(const DrawKey& key)
      : stream_{.seed = key.seed ^ kWarpSeedOffset,
                .use = RandomUse::kAugment,
                .stream = static_cast<std::uint32_t>(key.epoch)},
        first_(key.draw << kNumberBits) {}

  double in(const Range& range, Number number) const {
    const double unit = stream_.unit(first_ + static_cast<std::uint64_t>(number));
    return range.low + (range.high - range.low) * unit;
  }

 private:
  RandomStream stream_;
  std::uint64_t first_;
};

bool draw_flip(const DrawKey& key, double probability) {
  const RandomStream stream{.seed = key.seed,
                            .use = RandomUse::kAugment,
                            .stream = static_cast<std::uint32_t>(key.epoch)};
  return stream.unit(key.draw) < probability;
}

ColourMatrix draw_colour(const Numbers& numbers) {
  return colour_matrix({.contrast = numbers.in(kContrast, Number::kContrast),
                        .brightness = numbers.in(kBrightness, Number::kBrightness),
                        .saturation = numbers.in(kSaturation, Number::kSaturation),
                        .hue = numbers.in(kHueTurns, Number::kHue)});
}

Affine moved(double x, double y) {
  return {{1, 0, x, 0, 1, y}};
}

Affine scaled(double x, double y) {
  return {{x, 0, 0, 0, y, 0}};
}

// Rotation * shear * scale about the middle, in pixels as the angles need it, then the translation,
// rotated with the picture: transform.py's random_transform and adjust_transform_for_image.
Affine draw_transform(const Numbers& numbers, const ImageSize& size) {
  const double angle = numbers.in(kRotationRad, Number::kRotation);
  const double shear_angle = numbers.in(kShearRad, Number::kShear);
  const Affine rotation{
      {std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0}};
  const Affine shear{{1, -std::sin(shear_angle), 0, 0, std::cos(shear_angle), 0}};
  const Affine scale =
      scaled(numbers.in(kLightScale, Number::kScaleX), numbers.in(kLightScale, Number::kScaleY));
  const auto [shift_x, shift_y] = rotation(numbers.in(kTranslation, Number::kTranslationX),
                                           numbers.in(kTranslation, Number::kTranslationY));
  const Affine to_pixels = composed(scaled(size.width, size.height), moved(-0.5, -0.5));
  const Affine to_fractions =
      composed(moved(0.5 + shift_x, 0.5 + shift_y), scaled(1.0 / size.width, 1.0 / size.height));
  return composed(to_fractions, composed(rotation, composed(shear, composed(scale, to_pixels))));
}

// One scale; its place is uniform among those where the smaller of picture and canvas lies wholly
// inside the larger one.
Affine draw_scale_jitter(const Numbers& numbers) {
  const double scale = numbers.in(kStrongScale, Number::kScaleX);
  const Range free_space{0, 1 - scale};
  return composed(
      moved(numbers.in(free_space, Number::kPlaceX), numbers.in(free_space, Number::kPlaceY)),
      scaled(scale, scale));
}

}  // namespace

Augmentation draw_augmentation(const AugmentOptions& options, const DrawKey& key,
                               const ImageSize& size) {
  if (options.set == Augment::kNone) return {};
  Augmentation result{.flip = draw_flip(key, options.flip_probability)};
  const Numbers numbers(key);
  if (options.set == Augment::kLight) {
    result.warp = {.source_of = inverse(draw_transform(numbers, size)),
                   .colour = draw_colour(numbers),
                   .fill = Fill::kNearest};
  } else if (options.set == Augment::kStrong) {
    result.warp = {.source_of = inverse(draw_scale_jitter(numbers)),
                   .colour = draw_colour(numbers),
                   .fill = Fill::kConstant};
  }
  return result;
}

}  // namespace retina
