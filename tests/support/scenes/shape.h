// The five classes of the demo's pictures: an outline as a signed distance and a texture each, in
// the shape's own coordinates (centre 0, circumscribed circle 1).
#pragma once

#include <array>
#include <cstdint>
#include <numbers>

namespace retina::scenes {

inline constexpr double kTurn = 2 * std::numbers::pi;

enum class ShapeKind : std::uint8_t { kDisc, kSquare, kTriangle, kStar, kRing };
inline constexpr std::array kAllShapes = {ShapeKind::kDisc, ShapeKind::kSquare,
                                          ShapeKind::kTriangle, ShapeKind::kStar, ShapeKind::kRing};

// What COCO's "categories" say of a class. The ids have gaps, as COCO's own have.
struct ShapeClass {
  ShapeKind kind{};
  std::int64_t category_id = 0;
  const char* name = "";
  double hue = 0;  // centre of the class's colours, in turns
};
const ShapeClass& class_of(ShapeKind kind);

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
// on triangles, spots on stars, spokes on rings.
double texture_value(ShapeKind kind, Point point, const Texture& texture);

}  // namespace retina::scenes
