// Converts decoded pixels to the network's input: normalise, resize, flip, as torchvision's
// GeneralizedRCNNTransform does it, in f32 on the original pixels.
#pragma once

#include <array>
#include <cstdint>

#include "shared/image/image.h"

namespace retina {

// Size of an image after the resize, and the factor that led to it.
struct ResizedSize {
  int width = 0, height = 0;
  double scale = 1;
};

// Scales the shorter side to `min_side_px` unless that takes the longer one past `max_side_px`:
// scale = min(min_side / min(w, h), max_side / max(w, h)) in f64, size = floor(side * scale), as
// torchvision 0.26 (`_resize_image_and_masks`, recompute_scale_factor). Never below 1 pixel.
ResizedSize resized_size(int width, int height, int min_side_px, int max_side_px);

// Channel statistics in units of [0, 1]; the defaults are ImageNet's.
struct Normalisation {
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};
  std::array<float, 3> std{0.229F, 0.224F, 0.225F};
};

// Place of the resized image inside a batch's [3, H, W] f32 planes.
struct ResizeTarget {
  int width = 0, height = 0;      // the resized size
  std::int64_t row_stride = 0;    // floats from a row to the next, >= width
  std::int64_t plane_stride = 0;  // floats from a channel to the next
  bool flip = false;              // mirror left-right
};

// Resizes and normalises: out[c, y, x] = bilinear((pixel / 255 - mean[c]) / std[c]),
// align_corners=False, no antialias, source coordinate (x + 0.5) * (in / out) - 0.5 (F.interpolate
// with an explicit size). Writes exactly width x height of each plane: the caller zero-fills the
// padding. Deterministic, the same bits on every machine, within 1e-6 of the reference's f32
// (Resize.EqualsTheReference).
void resize_normalise(const Image& image, const ResizeTarget& target,
                      const Normalisation& normalisation, float* out);

// Convert a box of the original image to pixels of the resized one and back: per axis times new /
// old in f32, as torchvision's `resize_boxes`. `box` is xyxy.
struct ImageSize {
  int width = 0, height = 0;
};
std::array<float, 4> resize_box(const std::array<float, 4>& box, const ImageSize& from,
                                const ImageSize& to);

// Makes a smaller copy (each side of `to` <= the image's), area-weighted: for previews and
// coco-pack --max-side. Rounds to bytes, so never on the way into the network.
Image shrink(const Image& image, const ImageSize& to);

}  // namespace retina
