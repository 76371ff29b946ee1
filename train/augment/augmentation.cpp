#include "train/augment/augmentation.h"

#include <algorithm>
#include <cmath>

#include "shared/numeric/random.h"

namespace retina {
namespace {

// Keeps these draws apart from the mirror's and from the step's size.
constexpr std::uint64_t kWarpSeedOffset = 0xA24BAED4963EE407;
constexpr int kNumberBits = 4;  // a draw has 16 numbers

// What a number is for: its place among the draw's. Changing one changes every augmented run. Of
// scale, scale jitter and crop one alone is drawn: they share their numbers.
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
  kVerticalFlip = 12,
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

Range either_way(double bound) {
  return {-bound, bound};
}

bool changes_colour(const AugmentOptions& o) {
  return !o.contrast.is_always(1) || !o.saturation.is_always(1) || o.brightness > 0 || o.hue > 0;
}

ColourMatrix draw_colour(const AugmentOptions& options, const Numbers& numbers) {
  return colour_matrix(
      {.contrast = numbers.in(options.contrast, Number::kContrast),
       .brightness = numbers.in(either_way(options.brightness), Number::kBrightness),
       .saturation = numbers.in(options.saturation, Number::kSaturation),
       .hue = numbers.in(either_way(options.hue), Number::kHue)});
}

constexpr Affine kTopBottomMirror = {{1, 0, 0, 0, -1, 1}};

Affine moved(double x, double y) {
  return {{1, 0, x, 0, 1, y}};
}

Affine scaled(double x, double y) {
  return {{x, 0, 0, 0, y, 0}};
}

bool transforms(const AugmentOptions& o) {
  return !o.scale.is_always(1) || o.shear_rad > 0 || o.rotation_rad > 0 || o.translation > 0;
}

// In pixels, as the angles need it. The translation is rotated with the image: transform.py's
// random_transform and adjust_transform_for_image.
Affine draw_transform(const AugmentOptions& options, const Numbers& numbers,
                      const ImageSize& size) {
  const double angle = numbers.in(either_way(options.rotation_rad), Number::kRotation);
  const double shear_angle = numbers.in(either_way(options.shear_rad), Number::kShear);
  const Affine rotation{
      {std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0}};
  const Affine shear{{1, -std::sin(shear_angle), 0, 0, std::cos(shear_angle), 0}};
  const Affine scale = scaled(numbers.in(options.scale, Number::kScaleX),
                              numbers.in(options.scale, Number::kScaleY));
  const Range translation = either_way(options.translation);
  const auto [shift_x, shift_y] = rotation(numbers.in(translation, Number::kTranslationX),
                                           numbers.in(translation, Number::kTranslationY));
  const Affine to_pixels = composed(scaled(size.width, size.height), moved(-0.5, -0.5));
  const Affine to_fractions =
      composed(moved(0.5 + shift_x, 0.5 + shift_y), scaled(1.0 / size.width, 1.0 / size.height));
  return composed(to_fractions, composed(rotation, composed(shear, composed(scale, to_pixels))));
}

// Scaled about a place that is uniform among those where the smaller of image and canvas lies
// wholly inside the larger one.
Affine placed(double scale_x, double scale_y, const Numbers& numbers) {
  return composed(moved(numbers.in({0, 1 - scale_x}, Number::kPlaceX),
                        numbers.in({0, 1 - scale_y}, Number::kPlaceY)),
                  scaled(scale_x, scale_y));
}

Affine draw_scale_jitter(const AugmentOptions& options, const Numbers& numbers) {
  const double scale = numbers.in(options.scale_jitter, Number::kScaleX);
  return placed(scale, scale, numbers);
}

// The ratio that fits: neither side of the crop is longer than the image's.
Affine draw_crop(const AugmentOptions& options, const Numbers& numbers) {
  const double area = numbers.in(options.crop, Number::kScaleX);
  const double widest = std::log(std::min(4.0 / 3, 1 / area));
  const double ratio = std::exp(numbers.in(either_way(widest), Number::kScaleY));
  return placed(1 / std::sqrt(area * ratio), 1 / std::sqrt(area / ratio), numbers);
}

// The same into a square frame: the ratio is that of the crop's sides in pixels.
Affine draw_square_crop(const AugmentOptions& options, const Numbers& numbers,
                        const ImageSize& size) {
  const double width = size.width, height = size.height;
  const double share = numbers.in(options.crop, Number::kScaleX), area = share * width * height;
  const double narrowest = std::max(3.0 / 4, share * width / height);
  const double widest = std::min(4.0 / 3, width / (share * height));
  double crop_width = 0, crop_height = 0;
  if (narrowest <= widest) {
    const double ratio =
        std::exp(numbers.in({std::log(narrowest), std::log(widest)}, Number::kScaleY));
    crop_width = std::min(width, std::sqrt(area * ratio));
    crop_height = std::min(height, std::sqrt(area / ratio));
  } else {
    const double ratio = std::clamp(width / height, 3.0 / 4, 4.0 / 3);
    crop_width = std::min(width, height * ratio);
    crop_height = crop_width / ratio;
  }
  return placed(width / crop_width, height / crop_height, numbers);
}

}  // namespace

AugmentOptions options_of(Augment set) {
  AugmentOptions options;
  if (set != Augment::kNone) options.flip = 0.5;
  if (set == Augment::kCrop) options.crop = {0.08, 1};
  if (set == Augment::kLight || set == Augment::kStrong) {
    options.contrast = {0.9, 1.1};
    options.saturation = {0.95, 1.05};
    options.brightness = 0.1;
    options.hue = 0.05;
  }
  if (set == Augment::kLight) {
    options.scale = {0.9, 1.1};
    options.shear_rad = options.rotation_rad = options.translation = 0.1;
  }
  if (set == Augment::kStrong) {
    options.scale_jitter = {0.1, 2};
    options.fill = Fill::kConstant;
  }
  return options;
}

Augmentation draw_augmentation(const AugmentOptions& options, const DrawKey& key,
                               const ImageSize& size, const FrameRule& rule) {
  Augmentation result{.flip = draw_flip(key, options.flip)};
  const Numbers numbers(key);
  const bool crops = !options.crop.is_always(1), is_square = rule.framing == Framing::kSquare;
  std::optional<Affine> forward;
  if (is_square) {
    forward = crops ? draw_square_crop(options, numbers, size) : inverse(middle_square(size, rule));
  }
  const auto then = [&](const Affine& next) {
    forward = forward ? composed(next, *forward) : next;
  };
  if (numbers.in({0, 1}, Number::kVerticalFlip) < options.vertical_flip) then(kTopBottomMirror);
  if (transforms(options)) {
    then(draw_transform(options, numbers, is_square ? framed_size(size, rule) : size));
  }
  if (!options.scale_jitter.is_always(1)) then(draw_scale_jitter(options, numbers));
  if (crops && !is_square) then(draw_crop(options, numbers));
  if (forward || changes_colour(options)) {
    result.warp = {
        .source_of = forward ? inverse(*forward) : Affine{},
        .colour = changes_colour(options) ? draw_colour(options, numbers) : ColourMatrix{},
        .fill = options.fill};
  }
  return result;
}

}  // namespace retina
