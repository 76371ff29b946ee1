// What ignoring partial boxes (partial_boxes.h) on CPUs and on GPUs share. Read by nvcc too.
#pragma once

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

// A power of 2: its product with an area is exact.
constexpr double kPartialShare = 0.5;

// Whether at least kPartialShare of the anchor is inside the box.
template <class T>
RETINA_HOST_DEVICE bool is_mostly_inside(const T* anchor, const T* box) {
  const T width = smaller(anchor[2], box[2]) - larger(anchor[0], box[0]);
  const T height = smaller(anchor[3], box[3]) - larger(anchor[1], box[1]);
  return width > T(0) && height > T(0) &&
         width * height >= static_cast<T>(kPartialShare) * box_area(anchor);
}

// The match of an anchor of an image.
template <class T>
RETINA_HOST_DEVICE void ignore_anchor(const IgnorePartial<T>& p, std::int64_t image,
                                      std::int64_t anchor) {
  const std::int64_t place = image * p.anchor_count + anchor;
  if (p.matches[place] != kBackground) return;
  bool is_ignored = p.claims[place] != kBackground;
  for (std::int64_t g = p.offsets[image]; !is_ignored && g < p.offsets[image + 1]; ++g) {
    is_ignored = is_mostly_inside(p.anchors + 4 * anchor, p.boxes + 4 * g);
  }
  if (is_ignored) p.matches[place] = kIgnored;
}

}  // namespace retina::kernels
