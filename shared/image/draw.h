// Drawing on images: boxes with labels, for --draw, example detections and reports.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>

#include "shared/image/image.h"

namespace retina {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};

// Returns a colour that distinguishes neighbouring labels, on photographs too; repeats after 20.
Colour label_colour(int label);

struct BoxStyle {
  Colour colour{};
  int thickness_px = 0;  // 0: from the image's size, and thin enough for the box
  bool dashed = false;   // ground truth, crowds
};

// Outlines `box` (xyxy, pixels; clipped to the image, any value is safe) and writes `text`, unless
// empty, on a filled tab at its upper left corner: no taller than half of the box's shorter side if
// that is readable, and not at all if the box is smaller than the text.
void draw_box(Image& image, const std::array<double, 4>& box, const BoxStyle& style,
              const std::string& text);

// Returns true if the boxes drawn on an image should have their names: not if more than 60 are all
// of one class. `label_of(box)` may be a member.
template <class Boxes, class LabelOf>
bool are_worth_names(const Boxes& boxes, const LabelOf& label_of) {
  constexpr std::ptrdiff_t kMostOfOneClass = 60;
  if (std::ssize(boxes) <= kMostOfOneClass) return true;
  return std::any_of(boxes.begin(), boxes.end(), [&](const auto& box) {
    return std::invoke(label_of, box) != std::invoke(label_of, *boxes.begin());
  });
}

// Colour and size of the letters of `draw_text`.
struct TextStyle {
  Colour colour{};
  int scale = 1;  // font cells times this
};

// Writes printable ASCII (others show as '?') with its upper left corner at (x, y); clipped.
void draw_text(Image& image, int x, int y, const std::string& text, const TextStyle& style);

// Returns the number of pixels that `text` covers at `scale`.
int text_width_px(const std::string& text, int scale);
int text_height_px(int scale);

}  // namespace retina
