// From u8 pixels to the network's input, as shared/image and the loader do it.
#include <bit>
#include <cmath>
#include <cstdint>

#include "shared/base/cat.h"
#include "shared/image/resize.h"
#include "shared/onnx/parts.h"
#include "shared/onnx/rounded_sides.h"

namespace retina {
namespace {

Value per_channel(OnnxGraph& graph, const std::array<double, 3>& numbers, const std::string& name) {
  Array array{.shape = {1, 3, 1, 1}};
  for (const double number : numbers) array.numbers.push_back(static_cast<float>(number));
  return graph.numbers(array, name);
}

// (pixels / 255 - mean) / std as one factor and one summand.
Value normalised(OnnxGraph& graph, const Value& pixels, const ModelConfig& config) {
  std::array<double, 3> factor{}, summand{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    factor[channel] = 1 / (255 * config.image_std[channel]);
    summand[channel] = -config.image_mean[channel] / config.image_std[channel];
  }
  const Value scaled =
      graph.node("Mul", {pixels, per_channel(graph, factor, "normalisation factor")});
  return graph.node("Add", {scaled, per_channel(graph, summand, "normalisation summand")});
}

// resized_size() of pictures whose size is known when the graph runs. The quotient of integers is
// exact, where resized_size multiplies by a rounded scale: RoundedSides has the sizes at which that
// comes out one pixel less. Runtimes that have no f64, or i32 only, give the same.
Ints resized(OnnxGraph& graph, const Ints& picture, const ModelConfig& config) {
  if (picture.known) {
    const auto side = [&](std::size_t place) { return static_cast<int>(picture.known->at(place)); };
    const ResizedSize size = resized_size(side(1), side(0), config.min_side_px, config.max_side_px);
    return graph.known({size.height, size.width});
  }
  const RoundedSides rounding({config.min_side_px, config.max_side_px});
  const Ints smallest = graph.known({config.min_side_px}),
             largest = graph.known({config.max_side_px});
  const Ints height = graph.element(picture, 0), width = graph.element(picture, 1);
  const Ints shorter = graph.least(height, width), longer = graph.most(height, width);
  // scale = numerator / denominator
  const Value by_shorter =
      graph.node("LessOrEqual", {graph.value_of(graph.times(smallest, longer)),
                                 graph.value_of(graph.times(largest, shorter))});
  const auto chosen = [&](const Ints& one, const Ints& other) {
    return graph.computed(
        graph.node("Where", {by_shorter, graph.value_of(one), graph.value_of(other)}));
  };
  const Ints numerator = chosen(smallest, largest), denominator = chosen(shorter, longer);
  const Ints product = graph.times(picture, numerator);
  const Ints quotient = graph.over(product, denominator);
  // One less where the quotient is whole and the rounded scale too small.
  const Ints place = graph.plus(graph.least(denominator, graph.known({kLargestSide})),
                                chosen(graph.known({0}), graph.known({kLargestSide + 1})));
  const std::vector<Attribute> first_axis = {{"axis", std::int64_t{0}}};
  const Value from = graph.node(
      "Gather", {graph.table(rounding.first_low, "first low"), graph.value_of(place)}, first_axis);
  const Ints bounded = graph.least(quotient, largest);
  const Value fraction = graph.node(
      "Gather", {graph.table(rounding.fraction, "fraction"), graph.value_of(bounded)}, first_axis);
  const Value is_low = graph.node("GreaterOrEqual", {fraction, from});
  const Value is_whole = graph.node(
      "Equal", {graph.value_of(graph.times(quotient, denominator)), graph.value_of(product)});
  const Ints less =
      graph.computed(graph.to(ElementType::kInt64, graph.node("And", {is_whole, is_low})));
  return graph.most(graph.minus(quotient, less), graph.known({1}));
}

// Of the axis that is `side` px long: the two pixels that each of the square's takes, and how much
// of the second. i64, i64, f32 [S].
struct Taps {
  Value first, second, fraction;
};

// at = (step + begin + 0.5) * side / resized - 0.5 in units of 1 / (2 * resized): integers.
Taps square_taps(OnnxGraph& graph, const Ints& side, const Ints& shorter,
                 const ModelConfig& config) {
  const auto known = [&](std::int64_t number) { return graph.known({number}); };
  const Ints resized = graph.over(graph.times(side, known(config.max_side_px)), shorter);
  const Ints spare = graph.minus(resized, known(config.min_side_px));
  const Ints half = graph.over(spare, known(2));
  const auto is_odd = [&](const Ints& number) {
    return graph.minus(number, graph.times(graph.over(number, known(2)), known(2)));
  };
  const Ints begin = graph.plus(half, graph.times(is_odd(spare), is_odd(half)));  // halves to even
  std::vector<std::int64_t> odd_steps;
  for (std::int64_t step = 0; step < config.min_side_px; ++step) odd_steps.push_back(2 * step + 1);
  const Ints doubled = graph.plus(graph.known(odd_steps), graph.times(begin, known(2)));
  const Ints unit = graph.times(resized, known(2));
  const Ints at = graph.most(graph.minus(graph.times(doubled, side), resized), known(0));
  const Ints first = graph.over(at, unit);
  const Ints rest = graph.minus(at, graph.times(first, unit));
  const Ints last = graph.minus(side, known(1));
  const auto f32 = [&](const Ints& row) {
    return graph.to(ElementType::kFloat, graph.value_of(row));
  };
  return {.first = graph.value_of(graph.least(first, last)),
          .second = graph.value_of(graph.least(graph.plus(first, known(1)), last)),
          .fraction = graph.node("Div", {f32(rest), f32(unit)})};
}

}  // namespace

NetworkInput detector_input(OnnxGraph& graph, const Value& images, const Ints& count,
                            const Ints& picture, const ModelConfig& config) {
  graph.enter("input");
  PictureSizes sizes{
      .count = count, .picture = picture, .resized = resized(graph, picture, config), .padded = {}};
  const Ints unit = graph.known({kPadMultiplePx});
  sizes.padded = graph.times(
      graph.over(graph.plus(sizes.resized, graph.known({kPadMultiplePx - 1})), unit), unit);
  const Value pixels = normalised(graph, graph.to(ElementType::kFloat, images), config);
  const Value enlarged = graph.node(
      "Resize",
      {pixels, "", "", graph.value_of(graph.joined({count, graph.known({3}), sizes.resized}))},
      {{"mode", std::string("linear")},
       {"coordinate_transformation_mode", std::string("half_pixel")}});
  // Before each axis, then behind it.
  const Ints margins =
      graph.joined({graph.known({0, 0, 0, 0, 0, 0}), graph.minus(sizes.padded, sizes.resized)});
  return {.pixels = graph.node("Pad", {enlarged, graph.value_of(margins)}), .sizes = sizes};
}

Value square_input(OnnxGraph& graph, const Value& images, const Ints& picture,
                   const ModelConfig& config) {
  graph.enter("input");
  const Ints height = graph.element(picture, 0), width = graph.element(picture, 1);
  const Ints shorter = graph.least(height, width);
  const Taps down = square_taps(graph, height, shorter, config);
  const Taps across = square_taps(graph, width, shorter, config);
  const Value row_fraction =
      graph.node("Unsqueeze", {down.fraction, graph.integers({1})});  // [S, 1]
  const auto line = [&](const Value& rows) {
    const Value row = graph.node("Gather", {images, rows}, {{"axis", std::int64_t{2}}});
    const auto pixel = [&](const Value& columns) {
      return graph.to(ElementType::kFloat,
                      graph.node("Gather", {row, columns}, {{"axis", std::int64_t{3}}}));
    };
    const Value left = pixel(across.first);
    const Value step = graph.node("Sub", {pixel(across.second), left});
    return graph.node("Add", {left, graph.node("Mul", {step, across.fraction})});
  };
  const Value top = line(down.first);
  const Value step = graph.node("Sub", {line(down.second), top});
  const Value pixels = graph.node("Add", {top, graph.node("Mul", {step, row_fraction})});
  return normalised(graph, pixels, config);
}

}  // namespace retina
