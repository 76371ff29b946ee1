// Paints backgrounds and textured shapes, and remembers which object is visible at each pixel: the
// boxes are those of what can be seen, as COCO's are.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shared/image/image.h"
#include "tests/support/scenes/dice.h"
#include "tests/support/scenes/shape.h"

namespace retina::scenes {

using Rgb = std::array<double, 3>;  // 0..1

// `hue` in turns; saturation and value 0..1.
Rgb from_hsv(double hue, double saturation, double value);

// One object of an image. Pixels.
struct Object {
  ShapeKind kind{}, texture_of{};  // whose outline and whose texture
  double x = 0, y = 0, radius = 10;
  double turn = 0;  // rotation, in turns
  Rgb light{}, dark{};
  Texture texture{};
};

// What can be seen of one annotation.
struct Visible {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // x1, y1 exclusive
  std::int64_t pixel_count = 0;
};

class Canvas {
 public:
  Canvas(int width, int height);

  // Gradient, clouds, stripes or tiles in muted colours. Their sizes are those of an image of
  // about 200 px, times `scale`.
  void paint_background(Dice& dice, double scale = 1);

  // Paints `object` over what is there. Its pixels belong to `owner` (>= 0) from now on; several
  // objects of one owner are one annotation. Returns the pixels it covers inside the image.
  std::int64_t paint(const Object& object, int owner);

  // By owner, 0..owner_count-1.
  std::vector<Visible> visible(int owner_count) const;

  // Adds sensor noise of `sigma` (0..1) and rounds to bytes.
  Image develop(double sigma, Dice& dice) const;

 private:
  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
           static_cast<std::size_t>(x);
  }
  void paint_shadow(const Object& object);
  int width_, height_;
  std::vector<Rgb> pixels_;
  std::vector<int> owners_;
};

}  // namespace retina::scenes
