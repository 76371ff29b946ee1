// Augmentation's one resampling rule: a sample carries a 2x3 geometric and a 3x4 colour matrix, and
// each pixel of the network's input is computed by itself from both, in f32, never rounded to
// bytes. The counterpart of resize.h, which handles samples that are only resized and mirrored.
#pragma once

#include <array>

#include "shared/image/resize.h"

namespace retina {

// The map (x, y) -> (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]).
struct Affine {
  std::array<double, 6> m{1, 0, 0, 0, 1, 0};
  std::array<double, 2> operator()(double x, double y) const {
    return {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
  }
};
// Returns `second` after `first`.
Affine composed(const Affine& second, const Affine& first);
Affine inverse(const Affine& affine);  // needs a determinant other than 0

// A map of RGB in [0, 1] to RGB: rows red, green, blue; the fourth column is added. Values outside
// [0, 1] are clipped.
struct ColourMatrix {
  std::array<float, 12> m{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
};

// Parameters of colour_matrix(); the defaults change nothing.
struct ColourChange {
  double contrast = 1;    // distance from mid-grey times this
  double brightness = 0;  // added, of [0, 1]
  double saturation = 1;  // distance from the grey of equal luma times this
  double hue = 0;         // in turns, in the I-Q plane of YIQ
};
// Returns all four changes as one matrix; luma and hue by NTSC's YIQ (FCC 1953). They commute,
// except for clipping.
ColourMatrix colour_matrix(const ColourChange& change);

// Value of a pixel outside the source: that of the nearest edge pixel, or 0 after the normalisation
// (the mean colour), as in the padding of a batch.
enum class Fill { kNearest, kConstant };

struct Warp {
  // Map from the output to the source, both as fractions of their sides: the middle is (0.5, 0.5),
  // and the identity is the plain resize.
  Affine source_of{};
  ColourMatrix colour{};
  Fill fill = Fill::kNearest;
};

// Returns the map from pixels of the output to pixels of the source, whose centres have whole
// numbers, as in resize_normalise: the identity gives (x + 0.5) * (from / to) - 0.5. With `flip`,
// `warp` works on the mirrored source.
struct WarpSizes {
  ImageSize from{}, to{};
  bool flip = false;
};
Affine pixel_matrix(const Warp& warp, const WarpSizes& sizes);

// Warps and normalises: out[c, y, x] = (clip(colour(bilinear(pixel / 255 at pixel_matrix(x, y)))) -
// mean[c]) / std[c], without antialias; coordinates f64, values f32. A point outside the source by
// more than half a pixel is filled. Writes exactly width x height of each plane. Deterministic.
// Equals resize_normalise within 1e-5 if the warp is the identity (Warp.IdentityIsThePlainResize).
void warp_normalise(const Image& image, const ResizeTarget& target, const Warp& warp,
                    const Normalisation& normalisation, float* out);

// Converts a box of the source, xyxy in pixels (unmirrored), to pixels of the output: the hull of
// its warped corners, which may extend beyond the image.
std::array<double, 4> warped_hull(const std::array<float, 4>& box, const Warp& warp,
                                  const WarpSizes& sizes);

}  // namespace retina
