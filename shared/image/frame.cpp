#include "shared/image/frame.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace retina {

ImageSize framed_size(const ImageSize& image, const FrameRule& rule) {
  if (rule.framing != Framing::kWhole) return {rule.min_side_px, rule.min_side_px};
  const ResizedSize size =
      resized_size(image.width, image.height, rule.min_side_px, rule.max_side_px);
  return {size.width, size.height};
}

ImageSize padded_size(const ImageSize& image, const FrameRule& rule) {
  const ImageSize size = framed_size(image, rule);
  if (rule.framing == Framing::kSquare) return size;
  return {padded_side_px(size.width), padded_side_px(size.height)};
}

Affine middle_square(const ImageSize& image, const FrameRule& rule) {
  const int shorter = std::min(image.width, image.height);
  const auto part = [&](int side) {
    const auto resized = static_cast<double>(std::int64_t{rule.max_side_px} * side / shorter);
    // The default rounding mode takes halves to even.
    const double begin = std::nearbyint((resized - rule.min_side_px) / 2);
    return std::array<double, 2>{rule.min_side_px / resized, begin / resized};
  };
  const auto [scale_x, from_x] = part(image.width);
  const auto [scale_y, from_y] = part(image.height);
  return {{scale_x, 0, from_x, 0, scale_y, from_y}};
}

}  // namespace retina
