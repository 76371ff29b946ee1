// Frames that bring an image to the network's size: the whole image, its shape kept or not, or a
// square.
#pragma once

#include "shared/image/resize.h"
#include "shared/image/warp.h"

namespace retina {

enum class Framing {
  kWhole,      // resized_size(), zero-padded to multiples of 32 px: detection
  kStretched,  // all of it on a square of min_side_px, padded likewise: detection
  kSquare,     // a square of min_side_px out of it: classification
};

struct FrameRule {
  Framing framing = Framing::kWhole;
  int min_side_px = 800, max_side_px = 1333;
};

// Returns the smallest multiple of 32 that is at least `side_px` (torchvision's size_divisible).
constexpr int padded_side_px(int side_px) {
  return (side_px + 31) / 32 * 32;
}

// Return the size of an image inside the network's input, and the size of that input for the image
// alone.
ImageSize framed_size(const ImageSize& image, const FrameRule& rule);
ImageSize padded_size(const ImageSize& image, const FrameRule& rule);

// Returns the transform of kSquare without random draws: the middle of the image after a resize
// that brings its shorter side to max_side_px, in fractions, as Warp::source_of. torchvision's
// Resize(max_side) and CenterCrop(min_side), without antialias: the longer side is floor(long *
// max_side / short) px, the square begins at round((side - min_side) / 2) px, halves to even.
Affine middle_square(const ImageSize& image, const FrameRule& rule);

}  // namespace retina
