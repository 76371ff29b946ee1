#include "tests/support/classes/class_image.h"

#include <array>
#include <cmath>

#include "tests/support/scenes/canvas.h"
#include "tests/support/scenes/dice.h"
#include "tests/support/scenes/shape.h"

namespace retina::classes {
namespace {

using scenes::Canvas;
using scenes::Dice;
using scenes::Object;
using scenes::ShapeKind;

struct ImageClass {
  ShapeKind kind{};
  const char* name = "";
};

constexpr std::array<ImageClass, kImageClassCount> kClasses = {{{ShapeKind::kDisc, "disc"},
                                                                {ShapeKind::kSquare, "square"},
                                                                {ShapeKind::kTriangle, "triangle"},
                                                                {ShapeKind::kStar, "star"},
                                                                {ShapeKind::kRing, "ring"},
                                                                {ShapeKind::kCross, "cross"},
                                                                {ShapeKind::kHexagon, "hexagon"},
                                                                {ShapeKind::kCrescent, "crescent"},
                                                                {ShapeKind::kBowl, "bowl"},
                                                                {ShapeKind::kArrow, "arrow"}}};

// How hard the task is: with these, --recipe cifar10-keras ends at about 80 % of the validation
// images after its 25 epochs.
constexpr double kLargestTurn = 0.12;  // of an object, to each side, in turns
constexpr double kColourTells = 0.65;  // how often an object has its class's colour
constexpr double kHueSpread = 0.08;    // how far that is from the class's own hue, in turns

Object draw_object(int label, double colour_tells, Dice& dice) {
  Object object;
  object.kind = kClasses.at(static_cast<std::size_t>(label)).kind;
  object.texture_of = scenes::kTexturedShapes.at(
      static_cast<std::size_t>(dice.whole(0, int{scenes::kTexturedShapes.size()} - 1)));
  object.turn = dice.between(-kLargestTurn, kLargestTurn);
  const double any_hue = dice.between(0, 1);
  const double own_hue = 1.0 * label / kImageClassCount + dice.between(-kHueSpread, kHueSpread);
  const double hue = dice.chance(colour_tells) ? own_hue : any_hue;
  const double saturation = dice.between(0.4, 0.95);
  object.light = scenes::from_hsv(hue + dice.between(-0.05, 0.05), saturation * 0.6, 1.0);
  object.dark = scenes::from_hsv(hue, saturation, dice.between(0.35, 0.8));
  object.texture = {.frequency = dice.between(0.8, 1.8), .phase = dice.between(0, 1)};
  return object;
}

Object draw_any_object(Dice& dice) {
  return draw_object(dice.whole(0, kImageClassCount - 1), 0, dice);
}

}  // namespace

const std::vector<std::string>& image_class_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const ImageClass& one : kClasses) result.emplace_back(one.name);
    return result;
  }();
  return names;
}

ClassImage make_class_image(std::uint64_t seed, std::uint32_t number, int side_px) {
  Dice dice(seed, number);
  const double side = side_px;
  ClassImage drawn{.label = static_cast<int>(number % kImageClassCount)};
  Canvas canvas(side_px, side_px);
  canvas.paint_background(dice, side / 200);

  const int behind = dice.whole(0, 3);
  for (int i = 0; i < behind; ++i) {
    Object object = draw_any_object(dice);
    object.radius = side * dice.between(0.08, 0.15);
    object.x = side * dice.between(0, 1);
    object.y = side * dice.between(0, 1);
    canvas.paint(object, 0);
  }

  Object object = draw_object(drawn.label, kColourTells, dice);
  object.radius = side * dice.between(0.28, 0.46);
  object.x = side * dice.between(0.4, 0.6);
  object.y = side * dice.between(0.4, 0.6);
  canvas.paint(object, 0);

  if (dice.chance(0.4)) {  // before its rim
    Object before = draw_any_object(dice);
    before.radius = object.radius * dice.between(0.3, 0.5);
    const double angle = dice.between(0, scenes::kTurn),
                 away = object.radius * dice.between(0.7, 1.1);
    before.x = object.x + away * std::cos(angle);
    before.y = object.y + away * std::sin(angle);
    canvas.paint(before, 0);
  }
  drawn.quality = dice.whole(80, 95);
  drawn.image = canvas.develop(dice.between(0.01, 0.05), dice);
  return drawn;
}

}  // namespace retina::classes
