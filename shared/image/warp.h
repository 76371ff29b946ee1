// Augmentation's one resampling rule: a sample carries a 2x3 geometric and a 3x4 colour matrix, and
// each pixel of the network's input is computed by itself from both, in f32, never rounded to
// bytes. What resize.h does for samples that are only resized and mirrored.
#pragma once

#include <array>

#include "shared/image/resize.h"

namespace retina {

// (x, y) -> (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]).
struct Affine {
  std::array<double, 6> m{1, 0, 0, 0, 1, 0};
  std::array<double, 2> operator()(double x, double y) const {
    return {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
  }
};
// `second` after `first`.
Affine composed(const Affine& second, const Affine& first);
Affine inverse(const Affine& affine);  // of one with a determinant other than 0

// RGB in [0, 1] -> RGB: rows red, green, blue; the fourth column is added. What leaves [0, 1] is
// clipped.
struct ColourMatrix {
  std::array<float, 12> m{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
};

// What the ColourMatrix of colour_matrix() does; the defaults do nothing.
struct ColourChange {
  double contrast = 1;    // distance from mid-grey times this
  double brightness = 0;  // added, of [0, 1]
  double saturation = 1;  // distance from the grey of equal luma times this
  double hue = 0;         // turns, in the I-Q plane of YIQ
};
// All four as one matrix; luma and hue by NTSC's YIQ (FCC 1953). They commute, except for clipping.
ColourMatrix colour_matrix(const ColourChange& change);

// What a pixel gets that lies outside the source: the nearest pixel of its edge, or 0 after the
// normalisation (the mean colour), as the padding of a batch has it.
enum class Fill { kNearest, kConstant };

struct Warp {
  // From the output to the source, both as fractions of their sides: the middle is (0.5, 0.5), and
  // the identity is the plain resize.
  Affine source_of{};
  ColourMatrix colour{};
  Fill fill = Fill::kNearest;
};

// The same from pixels of the output to pixels of the source, whose centres have whole numbers, as
// in resize_normalise: the identity gives (x + 0.5) * (from / to) - 0.5. With `flip`, `warp` works
// on the mirrored source.
struct WarpSizes {
  ImageSize from{}, to{};
  bool flip = false;
};
Affine pixel_matrix(const Warp& warp, const WarpSizes& sizes);

// out[c, y, x] = (clip(colour(bilinear(pixel / 255 at pixel_matrix(x, y)))) - mean[c]) / std[c],
// without antialias; coordinates f64, values f32. A point outside the source by more than half a
// pixel is filled. Writes exactly width x height of each plane. Deterministic. Equals
// resize_normalise within 1e-5 where the warp is the identity (Warp.IdentityIsThePlainResize).
void warp_normalise(const Image& image, const ResizeTarget& target, const Warp& warp,
                    const Normalisation& normalisation, float* out);

// A box of the source, xyxy in pixels (unmirrored), in pixels of the output: the hull of its warped
// corners, which may reach out of the image.
std::array<double, 4> warped_hull(const std::array<float, 4>& box, const Warp& warp,
                                  const WarpSizes& sizes);

}  // namespace retina
