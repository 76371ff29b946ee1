// Random changes of training images: what is drawn of the ranges of --augment's sets or of the
// user's own, keyed by (seed, epoch, image). The same whoever loads the image and whenever training
// was resumed.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/image/frame.h"

namespace retina {

// A range to draw from, uniformly.
struct Range {
  double low = 0, high = 0;
  bool is_always(double value) const { return low == value && high == value; }
};

// Probabilities and ranges of the changes drawn for each image, in the order of application. Where
// a single number bounds a draw, it is from minus that number to that number. The defaults change
// nothing.
struct AugmentOptions {
  // Probabilities of mirroring left-right and top-bottom.
  double flip = 0, vertical_flip = 0;
  // Rotation * shear * scale about the middle, then the translation, in the image's sides; scale
  // and translation are drawn for each axis (keras-retinanet's transform.py, random_transform).
  Range scale = {1, 1};
  double shear_rad = 0, rotation_rad = 0, translation = 0;
  // Large-scale jitter (Ghiasi et al. 2021, "Simple copy-paste is a strong data augmentation
  // method", section 3): below 1 the image is a smaller one at a random place, the rest filled;
  // above 1 a random crop of it, enlarged.
  Range scale_jitter = {1, 1};
  // Random resized crop: a part of this share of the image's area, enlarged to the whole. Its
  // sides have the ratio of the frame's (the image's own, or 1 for a square) times r, log(r)
  // uniform in what of log(3/4) .. log(4/3) fits (torchvision's RandomResizedCrop draws again where
  // it does not; where nothing fits, the largest part of the nearest ratio).
  Range crop = {1, 1};
  // See ColourChange; hue in turns.
  Range contrast = {1, 1}, saturation = {1, 1};
  double brightness = 0, hue = 0;
  Fill fill = Fill::kNearest;
  // Least share of the area of a warped box's hull inside the image; with less, the box is dropped:
  // what it shows can no longer be recognised.
  double box_visibility = 0.25;
};

// The sets of --augment. kFlip: a left-right mirror. kLight: kFlip, and keras-retinanet's ranges:
// its --random-transform (transform.py) without the vertical flip, its colours (image.py,
// random_visual_effect_generator). There contrast is about the image's mean and saturation that
// of HSV; here they are about mid-grey and luma, so that a draw does not depend on the pixels.
// kStrong: kFlip, the colours and large-scale jitter. kCrop: kFlip and torchvision's
// RandomResizedCrop with its own range, as classifiers are trained (Szegedy et al. 2015, section
// 6).
enum class Augment { kNone, kFlip, kCrop, kLight, kStrong };
AugmentOptions options_of(Augment set);

// Key of a draw. `draw` is the image's place in the index, and in the upper 32 bits the number of
// its copy in the epoch.
struct DrawKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::uint64_t draw = 0;
};

struct Augmentation {
  bool flip = false;
  std::optional<Warp> warp{};  // change of the mirrored image; unset: only the resize
};

// Returns what `key` draws for an image of `size` px. Framed as a whole, the image keeps the size
// that its resize gives it: crops and padding are inside. Of a square, all but the crop changes
// middle_square(). A key draws the same mirror whatever else is drawn.
Augmentation draw_augmentation(const AugmentOptions& options, const DrawKey& key,
                               const ImageSize& size, const FrameRule& rule = {});

}  // namespace retina
