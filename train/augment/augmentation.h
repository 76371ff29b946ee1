// Random changes of training images: what each of --augment's sets draws, keyed by (seed, epoch,
// image). The same whoever loads the image and whenever training was resumed.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/choices.h"
#include "shared/image/warp.h"

namespace retina {

enum class Augment {
  kNone,
  kFlip,    // a left-right mirror
  kLight,   // kFlip, colour jitter and keras-retinanet's random transform
  kStrong,  // kFlip, colour jitter and large-scale jitter
};

// Their words on the command line.
inline const Choices<Augment> kAugments = {{"none", Augment::kNone},
                                           {"flip", Augment::kFlip},
                                           {"light", Augment::kLight},
                                           {"strong", Augment::kStrong}};

struct AugmentOptions {
  Augment set = Augment::kFlip;
  double flip_probability = 0.5;  // of all sets but kNone
};

// What a draw depends on. `draw` is the image's place in the index, and in the upper 32 bits which
// of its copies in the epoch it is.
struct DrawKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::uint64_t draw = 0;
};

// A range to draw from, uniformly.
struct Range {
  double low = 0, high = 0;
};

// The colour jitter of kLight and kStrong: keras-retinanet's ranges (image.py,
// random_visual_effect_generator). There contrast is about the picture's mean and saturation that
// of HSV; here they are about mid-grey and luma, so that a draw does not depend on the pixels.
inline constexpr Range kContrast = {0.9, 1.1}, kBrightness = {-0.1, 0.1},
                       kSaturation = {0.95, 1.05}, kHueTurns = {-0.05, 0.05};
// The geometry of kLight: keras-retinanet's --random-transform (transform.py) without its vertical
// flip; scale and translation are drawn for each axis, translations are of the picture's sides.
inline constexpr Range kRotationRad = {-0.1, 0.1}, kTranslation = {-0.1, 0.1},
                       kShearRad = {-0.1, 0.1}, kLightScale = {0.9, 1.1};
// The geometry of kStrong: large-scale jitter (Ghiasi et al. 2021, "Simple copy-paste is a strong
// data augmentation method", section 3): below 1 the picture is a smaller one at a random place,
// the rest filled; above 1 a random crop of it, enlarged.
inline constexpr Range kStrongScale = {0.1, 2};

struct Augmentation {
  bool flip = false;
  std::optional<Warp> warp{};  // of the mirrored picture; nothing: only the resize
};

// What `key` draws for a picture of `size` px. The picture keeps the size that its resize gives it:
// crops and padding are inside. All sets draw the same mirror.
Augmentation draw_augmentation(const AugmentOptions& options, const DrawKey& key,
                               const ImageSize& size);

}  // namespace retina
