#include "tests/support/scenes/scene.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/support/scenes/canvas.h"

namespace retina::scenes {
namespace {

using Classes = std::span<const ShapeClass>;

// What is painted under one annotation: one object, or the members of a crowd.
struct Group {
  std::int64_t category_id = 0;
  std::vector<Object> members{};
  bool crowd = false;
};

double draw_radius(Dice& dice) {
  const double share = dice.between(0, 1);
  if (share < 0.10) return dice.between(9, 14);
  if (share < 0.85) return dice.between(16, 36);
  return dice.between(36, 54);
}

const ShapeClass& draw_class(Classes classes, Dice& dice) {
  return classes[static_cast<std::size_t>(dice.whole(0, static_cast<int>(classes.size()) - 1))];
}

Object draw_object(const ShapeClass& shape, Dice& dice) {
  Object object;
  object.kind = shape.kind;
  object.texture_of = shape.texture;
  object.radius = draw_radius(dice);
  object.turn = dice.between(0, 1);
  const double hue = shape.hue + dice.between(-0.05, 0.05);
  const double saturation = dice.between(0.55, 0.95);
  object.light = from_hsv(hue + dice.between(-0.03, 0.03), saturation * 0.55, 1.0);
  object.dark = from_hsv(hue, saturation, dice.between(0.5, 0.8));
  object.texture = {.frequency = dice.between(1.6, 3.2), .phase = dice.between(0, 1)};
  return object;
}

// Whether `object` would hide too much of an earlier one, or the reverse.
bool collides(const Object& object, const std::vector<Group>& groups) {
  for (const auto& group : groups) {
    for (const auto& other : group.members) {
      const double distance = std::hypot(object.x - other.x, object.y - other.y);
      const double smaller = std::min(object.radius, other.radius);
      if (distance < std::max(object.radius, other.radius) + 0.25 * smaller) return true;
    }
  }
  return false;
}

// A place for `object`, mostly inside the image; nullopt when the image is too full.
std::optional<Object> placed(Object object, const std::vector<Group>& groups, int width, int height,
                             Dice& dice) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    object.x = dice.between(0.5 * object.radius, width - 0.5 * object.radius);
    object.y = dice.between(0.5 * object.radius, height - 0.5 * object.radius);
    if (!collides(object, groups)) return object;
  }
  return std::nullopt;
}

Group draw_crowd(int width, int height, Classes classes, Dice& dice) {
  const ShapeClass& shape = draw_class(classes, dice);
  Group group{.category_id = shape.category_id, .crowd = true};
  const Object pattern = draw_object(shape, dice);
  const double x = dice.between(0.25, 0.75) * width, y = dice.between(0.25, 0.75) * height;
  const double reach_x = dice.between(28, 46), reach_y = dice.between(20, 34);
  const int count = dice.whole(12, 22);
  for (int i = 0; i < count; ++i) {
    Object member = draw_object(draw_class(classes, dice), dice);
    member.kind = pattern.kind;
    member.texture_of = pattern.texture_of;
    member.light = pattern.light;
    member.dark = pattern.dark;
    member.radius = dice.between(6, 10);
    member.x = x + dice.between(-1, 1) * reach_x;
    member.y = y + dice.between(-1, 1) * reach_y;
    group.members.push_back(member);
  }
  return group;
}

std::vector<Group> draw_groups(int width, int height, Classes classes, Dice& dice) {
  std::vector<Group> groups;
  if (dice.chance(0.05)) return groups;
  if (dice.chance(1.0 / 12)) groups.push_back(draw_crowd(width, height, classes, dice));
  const int count = dice.whole(2, 7);
  for (int i = 0; i < count; ++i) {
    const ShapeClass& shape = draw_class(classes, dice);
    const auto object = placed(draw_object(shape, dice), groups, width, height, dice);
    if (object) groups.push_back({.category_id = shape.category_id, .members = {*object}});
  }
  return groups;
}

// `least_pixels`: of what counts as an object.
Scene paint_scene(Canvas& canvas, const std::vector<Group>& groups, std::int64_t least_pixels,
                  Dice& dice) {
  std::vector<std::int64_t> covered(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const auto& member : groups[i].members) {
      covered[i] += canvas.paint(member, static_cast<int>(i));
    }
  }

  Scene scene;
  scene.quality = dice.whole(80, 95);
  const auto seen = canvas.visible(static_cast<int>(groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    // What is nearly hidden is no object any more.
    if (seen[i].pixel_count * 4 < covered[i] || seen[i].pixel_count < least_pixels) continue;
    scene.annotations.push_back(
        {.category_id = groups[i].category_id,
         .bbox = {static_cast<double>(seen[i].x0), static_cast<double>(seen[i].y0),
                  static_cast<double>(seen[i].x1 - seen[i].x0),
                  static_cast<double>(seen[i].y1 - seen[i].y0)},
         .area = static_cast<double>(seen[i].pixel_count),
         .iscrowd = groups[i].crowd});
  }
  scene.image = canvas.develop(dice.between(0.005, 0.03), dice);
  return scene;
}

}  // namespace

Scene make_scene(std::uint64_t seed, std::uint32_t number, Classes classes) {
  Dice dice(seed, number);
  const bool portrait = dice.chance(0.25);
  int width = dice.whole(208, 264), height = dice.whole(160, 204);
  if (portrait) std::swap(width, height);

  Canvas canvas(width, height);
  canvas.paint_background(dice);
  return paint_scene(canvas, draw_groups(width, height, classes, dice), 40, dice);
}

Scene make_large_scene(std::uint64_t seed, std::uint32_t number, Classes classes, int side_px,
                       int object_px) {
  Dice dice(seed, number);
  Canvas canvas(side_px, side_px);
  canvas.paint_background(dice);
  const double spacing_px = 12.0 * object_px;  // of objects, on average
  const int wanted = std::max(1, static_cast<int>(std::pow(side_px / spacing_px, 2)));
  std::vector<Group> groups;
  for (int i = 0; i < wanted; ++i) {
    const ShapeClass& shape = draw_class(classes, dice);
    Object object = draw_object(shape, dice);
    object.radius = object_px * dice.between(0.4, 0.6);
    const auto found = placed(object, groups, side_px, side_px, dice);
    if (found) groups.push_back({.category_id = shape.category_id, .members = {*found}});
  }
  return paint_scene(canvas, groups, std::max(4, object_px * object_px / 8), dice);
}

}  // namespace retina::scenes
