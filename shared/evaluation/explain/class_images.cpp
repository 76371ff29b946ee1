#include "shared/evaluation/explain/class_images.h"

#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/image/draw.h"

namespace retina {

namespace {

constexpr int kSmallestSidePx = 240;  // of the longer side as it is drawn
constexpr Colour kTruthTextColour{.red = 255, .green = 255, .blue = 255};
constexpr Colour kRightColour{.red = 120, .green = 230, .blue = 150};
constexpr Colour kWrongColour{.red = 255, .green = 120, .blue = 100};

}  // namespace

Image captioned(const Image& image, const ClassCaption& caption) {
  const int longer = std::max(image.width, image.height);
  const int factor = std::max(1, (kSmallestSidePx + longer - 1) / longer);
  const int width = image.width * factor, height = image.height * factor;
  const int scale = std::max(
      2, static_cast<int>(std::lround(static_cast<double>(std::max(width, height)) / 250)));
  const std::string truth = cat("truth: ", caption.truth);
  const std::string found = cat(caption.predicted, " ", fixed(caption.confidence, 2));
  const int margin = 2 * scale, line = text_height_px(scale) + margin;
  const int text_width = std::max(text_width_px(truth, scale), text_width_px(found, scale));

  Image drawn(std::max(width, text_width + 2 * margin), height + 2 * line + margin);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::copy_n(image.pixel(x / factor, y / factor), 3, drawn.pixel(x, y));
    }
  }
  draw_text(drawn, margin, height + margin, truth, {.colour = kTruthTextColour, .scale = scale});
  draw_text(
      drawn, margin, height + margin + line, found,
      {.colour = caption.truth == caption.predicted ? kRightColour : kWrongColour, .scale = scale});
  return drawn;
}

}  // namespace retina
