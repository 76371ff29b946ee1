// From u8 pixels to the network's input, as shared/image and the loader do it.
#include <algorithm>
#include <cstdint>

#include "shared/base/cat.h"
#include "shared/image/resample.h"
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

// Computes (pixels / 255 - mean) / std by one factor and one summand.
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

// Computes resized_size() of images whose size is known when the graph runs. The quotient of
// integers is exact, where resized_size multiplies by a rounded scale: RoundedSides has the sizes
// for which that comes out one pixel less. Runtimes without f64, or with i32 only, give the same.
Ints resized(OnnxGraph& graph, const Ints& image, const ModelConfig& config) {
  if (!config.keep_ratio) return graph.known({config.min_side_px, config.min_side_px});
  if (image.known) {
    const auto side = [&](std::size_t place) { return static_cast<int>(image.known->at(place)); };
    const ResizedSize size = resized_size(side(1), side(0), config.min_side_px, config.max_side_px);
    return graph.known({size.height, size.width});
  }
  const RoundedSides rounding({config.min_side_px, config.max_side_px});
  const Ints smallest = graph.known({config.min_side_px}),
             largest = graph.known({config.max_side_px});
  const Ints height = graph.element(image, 0), width = graph.element(image, 1);
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
  const Ints product = graph.times(image, numerator);
  const Ints quotient = graph.over_large(product, denominator);
  // One less if the quotient is whole and the rounded scale too small.
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
      graph.computed(graph.to(TensorType::kInt64, graph.node("And", {is_whole, is_low})));
  return graph.most(graph.minus(quotient, less), graph.known({1}));
}

// Taps of an axis that becomes S px long: the two pixels of each new one, and the share of the
// second. i64 or i32, f32 [S].
struct Taps {
  Value first, second, fraction;
};

Value f32_of(OnnxGraph& graph, const Ints& row) {
  return graph.to(TensorType::kFloat, graph.value_of(row));
}

// Computes from / to [1] as f32, correctly rounded, from integers: runtimes divide f32 by a
// reciprocal.
Value rounded_quotient(OnnxGraph& graph, const Ints& from, const Ints& to) {
  const Ints base = graph.known({256});
  // The quotient's digits to the base 256: two before, three behind, and no number reaches 2^23.
  const Ints whole = graph.over(from, to);
  Ints rest = graph.minus(from, graph.times(whole, to));
  const auto with_digit = [&](const Ints& before) {
    const Ints more = graph.times(rest, base), digit = graph.over(more, to);
    rest = graph.minus(more, graph.times(digit, to));
    return graph.plus(graph.times(before, base), digit);
  };
  const Ints high = with_digit(whole);
  const Ints low = with_digit(with_digit(with_digit(graph.known({0}))));
  // Both are exact; their sum is rounded once.
  return graph.node("Add", {graph.node("Mul", {f32_of(graph, high), graph.row({0x1p-8F})}),
                            graph.node("Mul", {f32_of(graph, low), graph.row({0x1p-32F})})});
}

// Computes resize_tap (shared/image/resample.h) of an axis of `from` px that becomes `to` px long,
// each [1], to the last digit: at 640 px one unit in the last place of the coordinate is 6e-5 of a
// pixel, which moves boxes more than all the rest. Its fused fma(scale, place + 0.5, -0.5) is built
// from plain f32: scale = high + low of 12 bits each, so that both products are exact for up to
// 2048 places, and so is the first sum; the second one rounds, once. No runtime can round otherwise
// by fusing.
Taps resize_taps(OnnxGraph& graph, const std::string& axis, const Ints& from, const Ints& to) {
  if (from.known && to.known) {
    const int from_px = static_cast<int>(from.known->at(0)),
              to_px = static_cast<int>(to.known->at(0));
    std::vector<std::int32_t> first, second;
    Array fraction{.shape = {to_px}};
    for (int place = 0; place < to_px; ++place) {
      const Tap tap = resize_tap(place, from_px, to_px);
      first.push_back(tap.first);
      second.push_back(std::min(tap.first + 1, from_px - 1));
      fraction.numbers.push_back(tap.fraction);
    }
    return {.first = graph.table(first, cat("first ", axis)),
            .second = graph.table(second, cat("second ", axis)),
            .fraction = graph.numbers(fraction, cat("fraction of the second ", axis))};
  }
  const auto node = [&](const char* op, const std::vector<Value>& inputs) {
    return graph.node(op, inputs);
  };
  const Value scale = rounded_quotient(graph, from, to);
  // 2^n that leaves 12 bits of the scale, and 2^-n.
  Value unit = graph.row({64}), inverse = graph.row({0x1p-6F});
  for (float below = 32, most = 128; below > 0.1F; below /= 2, most *= 2) {
    const Value is_less = node("Less", {scale, graph.row({below})});
    unit = node("Where", {is_less, graph.row({most}), unit});
    inverse = node("Where", {is_less, graph.row({1 / most}), inverse});
  }
  const Value high = node("Mul", {node("Floor", {node("Mul", {scale, unit})}), inverse});
  const Value low = node("Sub", {scale, high});
  const Value places = node("Range", {graph.integer(0), graph.scalar_of(to), graph.integer(1)});
  const Value centre = node("Add", {graph.to(TensorType::kFloat, places), graph.row({0.5F})});
  const Value exact = node("Add", {node("Sub", {node("Mul", {centre, high}), graph.row({0.5F})}),
                                   node("Mul", {centre, low})});
  const Value source = node("Max", {exact, graph.row({0})});
  const Ints last = graph.minus(from, graph.known({1}));
  const Ints first = graph.least(graph.computed(graph.to(TensorType::kInt64, source)), last);
  const Value fraction = node("Min", {node("Sub", {source, f32_of(graph, first)}), graph.row({1})});
  return {.first = graph.value_of(first),
          .second = graph.value_of(graph.least(graph.plus(first, graph.known({1})), last)),
          .fraction = fraction};
}

// Computes at = (step + begin + 0.5) * side / resized - 0.5 in units of 1 / (2 * resized):
// integers.
Taps square_taps(OnnxGraph& graph, const Ints& side, const Ints& shorter,
                 const ModelConfig& config) {
  const auto known = [&](std::int64_t number) { return graph.known({number}); };
  const Ints resized = graph.over_large(graph.times(side, known(config.max_side_px)), shorter);
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
  const Ints first = graph.over_large(at, unit);
  const Ints rest = graph.minus(at, graph.times(first, unit));
  const Ints last = graph.minus(side, known(1));
  return {.first = graph.value_of(graph.least(first, last)),
          .second = graph.value_of(graph.least(graph.plus(first, known(1)), last)),
          .fraction = graph.node("Div", {f32_of(graph, rest), f32_of(graph, unit)})};
}

// Samples `images` u8 [N, 3, H, W] at the taps of both axes: f32 [N, 3, S down, S across], not
// normalised. Only the sampled pixels become f32.
Value sampled(OnnxGraph& graph, const Value& images, const Taps& down, const Taps& across) {
  const auto node = [&](const char* op, const std::vector<Value>& inputs) {
    return graph.node(op, inputs);
  };
  const auto taken = [&](const Value& from, const Value& places, std::int64_t axis) {
    return graph.node("Gather", {from, places}, {{"axis", axis}});
  };
  const auto between = [&](const Value& one, const Value& other, const Value& fraction) {
    return node("Add", {one, node("Mul", {node("Sub", {other, one}), fraction})});
  };
  const auto row = [&](const Value& places) {
    return graph.to(TensorType::kFloat, taken(images, places, 2));
  };
  const Value rows =
      between(row(down.first), row(down.second),
              node("Unsqueeze", {down.fraction, graph.integers({1})}));  // [N, 3, S down, W]
  return between(taken(rows, across.first, 3), taken(rows, across.second, 3), across.fraction);
}

}  // namespace

NetworkInput detector_input(OnnxGraph& graph, const Value& images, const Ints& count,
                            const Ints& image, const ModelConfig& config) {
  graph.enter("input");
  ImageSizes sizes{
      .count = count, .image = image, .resized = resized(graph, image, config), .padded = {}};
  const Ints unit = graph.known({kPadMultiplePx});
  sizes.padded = graph.times(
      graph.over(graph.plus(sizes.resized, graph.known({kPadMultiplePx - 1})), unit), unit);
  const auto axis = [&](const char* name, std::int64_t place) {
    return resize_taps(graph, name, graph.element(image, place),
                       graph.element(sizes.resized, place));
  };
  const Taps down = axis("row", 0), across = axis("column", 1);
  const Value pixels = normalised(graph, sampled(graph, images, down, across), config);
  // Margins before each axis, then after it.
  const Ints margins =
      graph.joined({graph.known({0, 0, 0, 0, 0, 0}), graph.minus(sizes.padded, sizes.resized)});
  return {.pixels = graph.node("Pad", {pixels, graph.value_of(margins)}), .sizes = sizes};
}

Value square_input(OnnxGraph& graph, const Value& images, const Ints& image,
                   const ModelConfig& config) {
  graph.enter("input");
  const Ints height = graph.element(image, 0), width = graph.element(image, 1);
  const Ints shorter = graph.least(height, width);
  const Taps down = square_taps(graph, height, shorter, config);
  const Taps across = square_taps(graph, width, shorter, config);
  const Value pixels = sampled(graph, images, down, across);
  return normalised(graph, pixels, config);
}

}  // namespace retina
