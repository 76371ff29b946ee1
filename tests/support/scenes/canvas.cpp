#include "tests/support/scenes/canvas.h"

#include <algorithm>
#include <cmath>

namespace retina::scenes {
namespace {

Rgb mix(const Rgb& a, const Rgb& b, double weight) {
  return {a[0] + (b[0] - a[0]) * weight, a[1] + (b[1] - a[1]) * weight,
          a[2] + (b[2] - a[2]) * weight};
}

Rgb scaled(const Rgb& colour, double factor) {
  return {colour[0] * factor, colour[1] * factor, colour[2] * factor};
}

double smooth(double t) {
  t = std::clamp(t, 0.0, 1.0);
  return t * t * (3 - 2 * t);
}

// Smoothly interpolated values of an integer grid, 0..1.
class ValueNoise {
 public:
  explicit ValueNoise(std::uint64_t seed) : seed_(static_cast<std::uint32_t>(seed)) {}

  double at(double x, double y) const {
    const double fx = std::floor(x), fy = std::floor(y);
    const auto ix = static_cast<std::int32_t>(fx), iy = static_cast<std::int32_t>(fy);
    const double tx = smooth(x - fx), ty = smooth(y - fy);
    const double top = std::lerp(corner(ix, iy), corner(ix + 1, iy), tx);
    const double bottom = std::lerp(corner(ix, iy + 1), corner(ix + 1, iy + 1), tx);
    return std::lerp(top, bottom, ty);
  }

 private:
  double corner(std::int32_t x, std::int32_t y) const {
    std::uint32_t h = seed_ ^ (static_cast<std::uint32_t>(x) * 0x9E3779B1U) ^
                      (static_cast<std::uint32_t>(y) * 0x85EBCA77U);
    h = (h ^ (h >> 15)) * 0x2C1B3C6DU;
    h = (h ^ (h >> 12)) * 0x297A2D39U;
    return static_cast<double>(h ^ (h >> 15)) * 0x1p-32;
  }
  std::uint32_t seed_;
};

// The rectangle of pixels within `reach` of a centre, cut to the image.
struct Window {
  int x0, y0, x1, y1;
  Window(double x, double y, double reach, int width, int height)
      : x0(std::clamp(static_cast<int>(std::floor(x - reach)), 0, width)),
        y0(std::clamp(static_cast<int>(std::floor(y - reach)), 0, height)),
        x1(std::clamp(static_cast<int>(std::ceil(x + reach)) + 1, 0, width)),
        y1(std::clamp(static_cast<int>(std::ceil(y + reach)) + 1, 0, height)) {}
};

// Pixel centre in the object's own, rotated coordinates.
Point local(const Object& object, double x, double y) {
  const double dx = (x + 0.5 - object.x) / object.radius;
  const double dy = (y + 0.5 - object.y) / object.radius;
  const double c = std::cos(kTurn * object.turn), s = std::sin(kTurn * object.turn);
  return {c * dx + s * dy, c * dy - s * dx};
}

}  // namespace

Rgb from_hsv(double hue, double saturation, double value) {
  Rgb colour{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double k = std::fmod(5.0 - 2.0 * static_cast<double>(i) + (hue - std::floor(hue)) * 6, 6);
    colour[i] = value * (1 - saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0));
  }
  return colour;
}

Canvas::Canvas(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)),
      owners_(pixels_.size(), -1) {}

void Canvas::paint_background(Dice& dice, double scale) {
  const Rgb a = from_hsv(dice.between(0, 1), dice.between(0.05, 0.35), dice.between(0.35, 0.9));
  const Rgb b = from_hsv(dice.between(0, 1), dice.between(0.05, 0.35), dice.between(0.25, 0.8));
  const double angle = dice.between(0, kTurn), period = scale * dice.between(25, 90);
  const double c = std::cos(angle) / period, s = std::sin(angle) / period;
  const double diagonal = std::hypot(width_, height_);
  const ValueNoise noise(dice.bits());
  const int style = dice.whole(0, 3);
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const double along = c * x + s * y, across = c * y - s * x;
      const double u = x / scale, v = y / scale;
      const double cloud = 0.6 * noise.at(u / 48.0, v / 48.0) + 0.3 * noise.at(u / 17.0, v / 17.0) +
                           0.1 * noise.at(u / 5.0, v / 5.0);
      double weight = cloud;
      if (style == 0) weight = 0.5 + along * period / diagonal + 0.25 * (cloud - 0.5);
      if (style == 1) weight = 0.5 + 0.18 * std::sin(kTurn * along) + 0.5 * (cloud - 0.5);
      if (style == 2) {
        const auto tile = static_cast<int>(std::floor(along) + std::floor(across));
        weight = (tile % 2 == 0 ? 0.3 : 0.6) + 0.35 * (cloud - 0.5);
      }
      pixels_[at(x, y)] = mix(a, b, std::clamp(weight, 0.0, 1.0));
    }
  }
}

void Canvas::paint_shadow(const Object& object) {
  Object shadow = object;
  shadow.x += 0.10 * object.radius;
  shadow.y += 0.16 * object.radius;
  const Window window(shadow.x, shadow.y, shadow.radius * 1.2, width_, height_);
  for (int y = window.y0; y < window.y1; ++y) {
    for (int x = window.x0; x < window.x1; ++x) {
      const double distance = outline_distance(object.kind, local(shadow, x, y));
      const double depth = 0.42 * smooth(0.5 - distance / 0.36);
      if (depth > 0) pixels_[at(x, y)] = scaled(pixels_[at(x, y)], 1 - depth);
    }
  }
}

std::int64_t Canvas::paint(const Object& object, int owner) {
  paint_shadow(object);
  std::int64_t covered = 0;
  const Window window(object.x, object.y, object.radius + 1, width_, height_);
  for (int y = window.y0; y < window.y1; ++y) {
    for (int x = window.x0; x < window.x1; ++x) {
      const Point point = local(object, x, y);
      const double distance_px = outline_distance(object.kind, point) * object.radius;
      const double opacity = std::clamp(0.5 - distance_px, 0.0, 1.0);
      if (opacity <= 0) continue;
      Rgb colour =
          mix(object.dark, object.light, texture_value(object.texture_of, point, object.texture));
      // Lit from the upper left, in the image's coordinates; a dark rim on larger objects.
      const double lit = ((object.x - x) + (object.y - y)) / (2 * object.radius);
      colour = scaled(colour, 0.88 + 0.28 * lit);
      const double rim_px = object.radius * 0.07;
      if (rim_px > 0.8) colour = scaled(colour, 1 - 0.5 * smooth(1 + distance_px / rim_px));
      pixels_[at(x, y)] = mix(pixels_[at(x, y)], colour, opacity);
      if (opacity >= 0.5) {
        owners_[at(x, y)] = owner;
        ++covered;
      }
    }
  }
  return covered;
}

std::vector<Visible> Canvas::visible(int owner_count) const {
  std::vector<Visible> all(static_cast<std::size_t>(owner_count),
                           {.x0 = width_, .y0 = height_, .x1 = 0, .y1 = 0});
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const int owner = owners_[at(x, y)];
      if (owner < 0) continue;
      Visible& seen = all.at(static_cast<std::size_t>(owner));
      seen.x0 = std::min(seen.x0, x);
      seen.y0 = std::min(seen.y0, y);
      seen.x1 = std::max(seen.x1, x + 1);
      seen.y1 = std::max(seen.y1, y + 1);
      ++seen.pixel_count;
    }
  }
  return all;
}

Image Canvas::develop(double sigma, Dice& dice) const {
  Image image(width_, height_);
  for (std::size_t i = 0; i < pixels_.size(); ++i) {
    const std::uint64_t bits = dice.bits();
    for (std::size_t channel = 0; channel < 3; ++channel) {
      // The sum of two bytes: near enough to a normal of standard deviation 104.
      const auto low = static_cast<double>((bits >> (16 * channel)) & 255U);
      const auto high = static_cast<double>((bits >> (16 * channel + 8)) & 255U);
      const double value = pixels_[i][channel] + sigma * (low + high - 255) / 104;
      image.rgb[i * 3 + channel] =
          static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 1.0) * 255));
    }
  }
  return image;
}

}  // namespace retina::scenes
