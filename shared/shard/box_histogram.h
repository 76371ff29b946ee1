// Sizes of the boxes of a set that training learns, relative to their images, so that choosing
// anchors reads no record. Part of manifest.json (FORMAT.md).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>

namespace retina {

// A bin in quarters of an octave, rounded. Part of the format.
struct BoxBin {
  int width = 0, height = 0;  // of the box, relative to its image's shorter side
  int aspect = 0;             // of the image: width / height

  friend auto operator<=>(const BoxBin&, const BoxBin&) = default;
};

inline int quarter_octaves(double ratio) {
  return static_cast<int>(std::lround(4 * std::log2(ratio)));
}
inline double ratio_of(int quarter_octaves) {
  return std::exp2(quarter_octaves / 4.0);
}

// Number of boxes in each bin that has any.
using BoxHistogram = std::map<BoxBin, std::int64_t>;

// Returns the bin of a box. `box` x1, y1, x2, y2 of training_box() (record.h): at least 2^-20 of
// the image.
inline BoxBin bin_of(const std::array<float, 4>& box, int image_width, int image_height) {
  const double shorter = std::min(image_width, image_height);
  return {.width = quarter_octaves((box[2] - box[0]) / shorter),
          .height = quarter_octaves((box[3] - box[1]) / shorter),
          .aspect = quarter_octaves(static_cast<double>(image_width) / image_height)};
}

}  // namespace retina
