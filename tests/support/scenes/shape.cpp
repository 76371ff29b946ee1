#include "tests/support/scenes/shape.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "shared/base/error.h"
#include "shared/coco/categories.h"

namespace retina::scenes {
namespace {

double length(Point point) {
  return std::hypot(point.x, point.y);
}

// Distance to a regular triangle's sides (inscribed circle 0.5).
double triangle_distance(Point point) {
  const double slope = std::numbers::sqrt3 / 2;
  return std::max({point.y, -0.5 * point.y + slope * point.x, -0.5 * point.y - slope * point.x}) -
         0.5;
}

// A five-pointed star: the angle is folded into half of one point, where the outline is the line
// from the tip (1, 0) to the notch.
double star_distance(Point point) {
  constexpr double kSector = kTurn / 5, kNotchRadius = 0.46;
  const double radius = length(point);
  double angle = std::fmod(std::atan2(point.x, -point.y) + kTurn, kSector);
  angle = std::min(angle, kSector - angle);
  const Point folded{radius * std::cos(angle), radius * std::sin(angle)};
  const Point notch{kNotchRadius * std::cos(kSector / 2), kNotchRadius * std::sin(kSector / 2)};
  const Point edge{notch.x - 1, notch.y};
  return ((folded.x - 1) * edge.y - folded.y * edge.x) / length(edge);
}

double cross_distance(Point point) {
  constexpr double kHalfWidth = 0.3, kReach = 0.954;
  const double x = std::abs(point.x), y = std::abs(point.y);
  return std::min(std::max(x - kReach, y - kHalfWidth), std::max(x - kHalfWidth, y - kReach));
}

double hexagon_distance(Point point) {
  constexpr double kInner = std::numbers::sqrt3 / 2;
  const double x = std::abs(point.x), y = std::abs(point.y);
  return std::max(y, kInner * x + 0.5 * y) - kInner;
}

// A disc less a smaller one beside its centre.
double crescent_distance(Point point) {
  return std::max(length(point) - 1, 0.8 - length({point.x - 0.45, point.y}));
}

// A head with its tip at (0, -1) on a shaft.
double arrow_distance(Point point) {
  constexpr double kNeck = -0.05, kSlope = 0.85, kHalfShaft = 0.25, kEnd = 0.968;
  const double x = std::abs(point.x);
  const double side = (x - kSlope * (point.y + 1)) / std::hypot(1, kSlope);
  const double head = std::max(point.y - kNeck, side);
  const double shaft = std::max({x - kHalfShaft, kNeck - point.y, point.y - kEnd});
  return std::min(head, shaft);
}

// A smooth step of a wave: 0 and 1 with soft borders.
double soft_square(double turns) {
  return std::clamp(0.5 + 1.6 * std::sin(kTurn * turns), 0.0, 1.0);
}

constexpr int kHues = 8;

// The demo's own five.
std::array<ShapeClass, kTexturedShapes.size()> plain_shapes() {
  using enum ShapeKind;
  return {{{kDisc, kDisc, 0.00, 3, "disc"},
           {kSquare, kSquare, 0.58, 7, "square"},
           {kTriangle, kTriangle, 0.33, 18, "triangle"},
           {kStar, kStar, 0.14, 44, "star"},
           {kRing, kRing, 0.80, 90, "ring"}}};
}

const char* hue_word(double hue) {
  static constexpr std::array<const char*, kHues> kWords = {"red",  "amber", "lime",   "green",
                                                            "cyan", "blue",  "violet", "pink"};
  return kWords.at(static_cast<std::size_t>(std::lround(hue * kHues)) % kWords.size());
}

const char* texture_word(ShapeKind kind) {
  static constexpr std::array<const char*, kTexturedShapes.size()> kWords = {
      "ringed", "checked", "striped", "spotted", "spoked"};
  return kWords.at(static_cast<std::size_t>(kind));
}

std::vector<ShapeClass> make_classes() {
  const auto plain = plain_shapes();
  std::vector<ShapeClass> classes(plain.begin(), plain.end());
  std::vector<std::int64_t> free_ids;
  for (const Category& one : coco_categories()) {
    const auto has_id = [&](const ShapeClass& shape) { return shape.category_id == one.id; };
    if (std::none_of(plain.begin(), plain.end(), has_id)) free_ids.push_back(one.id);
  }
  for (std::size_t i = plain.size(); i < std::size_t{kMaxClasses}; ++i) {
    const std::size_t round = i / kTexturedShapes.size();
    ShapeClass shape = plain[i % kTexturedShapes.size()];
    shape.hue += static_cast<double>(round % kHues) / kHues;
    shape.hue -= std::floor(shape.hue);
    shape.name = cat(hue_word(shape.hue), " ", shape.name);
    if (round >= kHues) {
      shape.texture = kTexturedShapes[(i + 1) % kTexturedShapes.size()];
      shape.name = cat(texture_word(shape.texture), " ", shape.name);
    }
    shape.category_id = free_ids.at(i - plain.size());
    classes.push_back(shape);
  }
  return classes;
}

}  // namespace

std::span<const ShapeClass> first_classes(int count) {
  static const std::vector<ShapeClass> classes = make_classes();
  RETINA_CHECK(count >= 1 && count <= kMaxClasses, count);
  return std::span(classes).first(static_cast<std::size_t>(count));
}

double outline_distance(ShapeKind kind, Point point) {
  switch (kind) {
    case ShapeKind::kDisc:
      return length(point) - 1;
    case ShapeKind::kSquare:
      return std::max(std::abs(point.x), std::abs(point.y)) - std::numbers::sqrt2 / 2;
    case ShapeKind::kTriangle:
      return triangle_distance(point);
    case ShapeKind::kStar:
      return star_distance(point);
    case ShapeKind::kRing:
      return std::abs(length(point) - 0.75) - 0.25;
    case ShapeKind::kCross:
      return cross_distance(point);
    case ShapeKind::kHexagon:
      return hexagon_distance(point);
    case ShapeKind::kCrescent:
      return crescent_distance(point);
    case ShapeKind::kBowl:
      return std::max(length(point) - 1, -point.y);
    case ShapeKind::kArrow:
      return arrow_distance(point);
  }
  RETINA_CHECK(false, "unknown shape");
}

double texture_value(ShapeKind kind, Point point, const Texture& texture) {
  const double frequency = texture.frequency, phase = texture.phase;
  switch (kind) {
    case ShapeKind::kDisc:
      return soft_square(length(point) * frequency + phase);
    case ShapeKind::kSquare: {
      const double a = soft_square(point.x * frequency * 0.7 + phase);
      const double b = soft_square(point.y * frequency * 0.7 + phase);
      return a + b - 2 * a * b;
    }
    case ShapeKind::kTriangle:
      return soft_square(point.y * frequency + phase);
    case ShapeKind::kStar: {
      const double a = std::sin(kTurn * (point.x * frequency * 0.8 + phase));
      const double b = std::sin(kTurn * (point.y * frequency * 0.8 + phase));
      return std::clamp(2.5 * a * b, 0.0, 1.0);
    }
    case ShapeKind::kRing:
      return soft_square(std::atan2(point.y, point.x) / kTurn * std::round(frequency * 2 + 3) +
                         phase);
    default:
      RETINA_CHECK(false, "a shape without a texture");
  }
}

}  // namespace retina::scenes
