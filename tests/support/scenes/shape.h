// The classes of the demo's images: an outline as a signed distance and a texture each, in the
// shape's own coordinates (centre 0, circumscribed circle 1).
#pragma once

#include <array>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>

namespace retina::scenes {

inline constexpr double kTurn = 2 * std::numbers::pi;

enum class ShapeKind : std::uint8_t {
  kDisc,
  kSquare,
  kTriangle,
  kStar,
  kRing,
  // Outlines alone, without a texture of their own.
  kCross,
  kHexagon,
  kCrescent,
  kBowl,
  kArrow
};
inline constexpr std::array kTexturedShapes = {
    ShapeKind::kDisc, ShapeKind::kSquare, ShapeKind::kTriangle, ShapeKind::kStar, ShapeKind::kRing};

// A class: how its objects look, and what COCO's "categories" say of it. Ids are COCO's own, with
// their gaps.
struct ShapeClass {
  ShapeKind kind{};     // the outline
  ShapeKind texture{};  // the texture is this one's
  double hue = 0;       // centre of the class's colours, in turns
  std::int64_t category_id = 0;
  std::string name{};
};

inline constexpr int kMaxClasses = 80;  // COCO's number

// The first `count` classes, 1..kMaxClasses: the five shapes, each with its own texture and hue,
// then every shape in the other hues, then all again with another shape's texture.
std::span<const ShapeClass> first_classes(int count);

struct Point {
  double x = 0, y = 0;
};

// Distance to the outline in radii, negative inside.
double outline_distance(ShapeKind kind, Point point);

// How the texture of one object looks: repeats per radius, phase in turns.
struct Texture {
  double frequency = 3, phase = 0;
};

// Mixing weight of the object's two colours, 0..1: rings on discs, a chessboard on squares, stripes
// on triangles, spots on stars, spokes on rings. `kind` is one of kTexturedShapes.
double texture_value(ShapeKind kind, Point point, const Texture& texture);

}  // namespace retina::scenes
