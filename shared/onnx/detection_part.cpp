// From the heads' outputs to detections: shared/model/postprocess.cpp as ONNX. No tensor of the
// size of the logits is sorted: the best are taken in place, and their places give cell, anchor and
// class.
#include <cstdint>

#include "shared/base/cat.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/parts.h"

namespace retina {
namespace {

constexpr std::int64_t kBoxNumbers = 4;

// Places of anchors on a level: their cell and which of the nine, i64 of one shape.
struct AnchorPlaces {
  Value x, y, which;
};

class Decoder {
 public:
  Decoder(OnnxGraph& graph, const ModelConfig& config, const ImageSizes& sizes)
      : graph_(graph), config_(config), padded_(sizes.padded) {
    graph.enter("boxes");
    const auto across_first = [&](const Ints& size) {
      return graph.joined({graph.element(size, 1), graph.element(size, 0)});
    };
    const Ints resized = across_first(sizes.resized), image = across_first(sizes.image);
    bounds_ = f32(graph.joined({resized, resized}));
    ratio_ = graph.node("Div", {f32(graph.joined({image, image})), bounds_});
    // P3 has an eighth of the padded image's sides; every further level halves, rounding up.
    Ints grid = graph.over(padded_, graph.known({8}));
    for (Ints& level : grids_) {
      level = grid;
      grid = graph.over(graph.plus(grid, graph.known({1})), graph.known({2}));
    }
  }

  std::int64_t anchors_per_cell() const { return config_.anchors_per_location; }
  // Returns the rows and columns of a level, [2].
  const Ints& grid(std::size_t level) const { return grids_[level]; }

  // Decodes deltas [N, n, 4] of the anchors at `places` -> boxes [N, n, 4] inside the resized
  // image.
  Value boxes(std::size_t level, const Value& deltas, const AnchorPlaces& places) {
    const Value anchors = anchors_at(level, places);
    const Value low = graph_.last_axis(anchors, 0, 2);
    const Value size = graph_.node("Sub", {graph_.last_axis(anchors, 2, 2), low});
    const Value half_size = times(size, graph_.number(0.5F));
    const Value centre = plus(times(graph_.last_axis(deltas, 0, 2), size), plus(low, half_size));
    const Value growth = graph_.node(
        "Min", {graph_.last_axis(deltas, 2, 2), graph_.number(static_cast<float>(kMaxLogSize))});
    const Value half = times(graph_.number(0.5F), times(graph_.node("Exp", {growth}), size));
    const Value corners =
        graph_.node("Concat", {graph_.node("Sub", {centre, half}), plus(centre, half)},
                    {{"axis", std::int64_t{-1}}});
    return graph_.node("Min", {graph_.node("Max", {corners, graph_.number(0)}), bounds_});
  }

  // Converts boxes of the resized image to pixels of the original one.
  Value in_image(const Value& boxes) { return times(boxes, ratio_); }

 private:
  Value f32(const Ints& row) { return graph_.to(TensorType::kFloat, graph_.value_of(row)); }
  Value plus(const Value& a, const Value& b) { return graph_.node("Add", {a, b}); }
  Value times(const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); }

  // Returns the anchors at `places`, [..., 4] xyxy f32.
  Value anchors_at(std::size_t level, const AnchorPlaces& places) {
    const Ints stride = graph_.over(padded_, grids_[level]);
    const auto centre = [&](const Value& cell, std::int64_t axis) {
      Value place = graph_.to(TensorType::kFloat, cell);
      if (config_.anchor_offset != 0) {
        place = plus(place, graph_.number(static_cast<float>(config_.anchor_offset)));
      }
      const Value pixels = times(place, f32(graph_.element(stride, axis)));
      return graph_.node("Unsqueeze", {pixels, graph_.integers({-1})});
    };
    const Value x = centre(places.x, 1), y = centre(places.y, 0);
    const Value centres = graph_.node("Concat", {x, y, x, y}, {{"axis", std::int64_t{-1}}});
    Array base{.shape = {config_.anchors_per_location, kBoxNumbers}};
    for (const AnchorBox& box :
         base_anchors(config_.anchor_sizes[level], config_.anchors_per_location)) {
      base.numbers.insert(base.numbers.end(), box.begin(), box.end());
    }
    const Value shapes = graph_.numbers(base, cat("base anchors of P", level + 3));
    return plus(centres,
                graph_.node("Gather", {shapes, places.which}, {{"axis", std::int64_t{0}}}));
  }

  OnnxGraph& graph_;
  const ModelConfig& config_;
  Ints padded_;
  std::array<Ints, kLevelCount> grids_{};
  Value bounds_, ratio_;  // f32 [4]
};

// Quotient and remainder, i64.
struct Divided {
  Value quotient, rest;
};
Divided divided(OnnxGraph& graph, const Value& numbers, const Ints& by) {
  const Ints quotient = graph.over_large(graph.computed(numbers), by);
  return {.quotient = quotient.value,
          .rest = graph.value_of(graph.minus(graph.computed(numbers), graph.times(quotient, by)))};
}

struct Candidates {
  Value boxes;   // [N, n, 4]
  Value scores;  // [N, n]
  Value labels;  // [N, n]
};

// Returns the best of a level. logits [N, P K, h, w], deltas [N, 4 P, h, w], P anchors of a cell.
Candidates best_of_level(OnnxGraph& graph, Decoder& decoder, const HeadValues& heads,
                         std::size_t level, std::int64_t class_count, int candidate_count) {
  const Ints rows = graph.element(decoder.grid(level), 0);
  const Ints columns = graph.element(decoder.grid(level), 1);
  const Ints cells = graph.times(rows, columns);
  const Ints all = graph.times(cells, graph.known({decoder.anchors_per_cell() * class_count}));
  const Value flat = graph.node("Reshape", {heads.logits[level], graph.integers({0, -1})});
  const std::vector<Value> best =
      graph.nodes("TopK", {flat, graph.value_of(graph.least(graph.known({candidate_count}), all))},
                  2, {{"axis", std::int64_t{1}}});
  // place = (which * K + label) * cells + y * columns + x
  const Divided by_cells = divided(graph, best[1], cells);
  const Divided by_class = divided(graph, by_cells.quotient, graph.known({class_count}));
  const Divided by_columns = divided(graph, by_cells.rest, columns);
  // A delta's place is (which * 4 + number) * cells + cell.
  const Value first = graph.node("Mul", {by_class.quotient, graph.integers({kBoxNumbers})});
  const Value channels = graph.node("Add", {graph.node("Unsqueeze", {first, graph.integers({-1})}),
                                            graph.integers({0, 1, 2, 3})});  // [N, n, 4]
  const Value places =
      graph.node("Add", {graph.node("Mul", {channels, graph.value_of(cells)}),
                         graph.node("Unsqueeze", {by_cells.rest, graph.integers({-1})})});
  const Value deltas =
      graph.node("GatherND",
                 {graph.node("Reshape", {heads.deltas[level], graph.integers({0, -1})}),
                  graph.node("Unsqueeze", {places, graph.integers({-1})})},
                 {{"batch_dims", std::int64_t{1}}});
  return {.boxes = decoder.boxes(
              level, deltas,
              {.x = by_columns.rest, .y = by_columns.quotient, .which = by_class.quotient}),
          .scores = graph.node("Sigmoid", {best[0]}),
          .labels = by_class.rest};
}

// Extends `value` along axis 1 by `count` rows of `filler`.
Value extended(OnnxGraph& graph, const Value& value, const Value& filler, const Ints& shape) {
  const Value rows = graph.node("Expand", {filler, graph.value_of(shape)});
  return graph.node("Concat", {value, rows}, {{"axis", std::int64_t{1}}});
}

// Returns the scores of the boxes that suppression keeps, [N, n] f32, -1 for dropped boxes.
Value kept_scores(OnnxGraph& graph, const Candidates& candidates, const PostprocessOptions& options,
                  std::int64_t class_count) {
  // Suppression by class needs the scores of every class: [N, K, n], zero but for the box's own.
  std::vector<std::int64_t> classes;
  for (std::int64_t label = 0; label < class_count; ++label) classes.push_back(label);
  const Value column = graph.node("Unsqueeze", {graph.integers(classes), graph.integers({1})});
  const Value row_axis = graph.integers({1});
  const Value is_own =
      graph.node("Equal", {graph.node("Unsqueeze", {candidates.labels, row_axis}), column});
  const Value by_class = graph.node(
      "Where", {is_own, graph.node("Unsqueeze", {candidates.scores, row_axis}), graph.number(0)});
  const Value selected = graph.node(
      "NonMaxSuppression",
      {candidates.boxes, by_class, graph.integers({options.max_detections}),
       graph.numbers({{1}, {static_cast<float>(options.nms_threshold)}}, kOnnxNmsThreshold),
       graph.numbers({{1}, {static_cast<float>(options.score_threshold)}}, kOnnxScoreThreshold)});
  // Each of its rows is image, class, box.
  const Value places =
      graph.node("Gather", {selected, graph.integers({0, 2})}, {{"axis", std::int64_t{1}}});
  const Value none =
      graph.node("Expand", {graph.number(-1), graph.node("Shape", {candidates.scores})});
  return graph.node("ScatterND",
                    {none, places, graph.node("GatherND", {candidates.scores, places})});
}

}  // namespace

DetectionValues detections(OnnxGraph& graph, const ModelConfig& config,
                           const PostprocessOptions& options, const HeadValues& heads,
                           const ImageSizes& sizes) {
  Decoder decoder(graph, config, sizes);
  std::vector<Value> boxes, scores, labels;
  for (std::size_t level = 0; level < kLevelCount; ++level) {
    graph.enter(cat("boxes/P", level + 3));
    const Candidates found = best_of_level(graph, decoder, heads, level, config.class_count,
                                           options.candidates_per_level);
    boxes.push_back(found.boxes);
    scores.push_back(found.scores);
    labels.push_back(found.labels);
  }
  graph.enter("suppression");
  const auto all_levels = [&](const std::vector<Value>& values) {
    return graph.node("Concat", values, {{"axis", std::int64_t{1}}});
  };
  const Candidates all{
      .boxes = all_levels(boxes), .scores = all_levels(scores), .labels = all_levels(labels)};
  const Value kept = kept_scores(graph, all, options, config.class_count);
  // There may be fewer candidates than answers, so D empty ones are appended.
  const Ints limit = graph.known({options.max_detections});
  const Ints row = graph.joined({sizes.count, limit});
  const std::vector<Value> best =
      graph.nodes("TopK", {extended(graph, kept, graph.number(-1), row), graph.value_of(limit)}, 2,
                  {{"axis", std::int64_t{1}}});
  const Value is_found = graph.node("Greater", {best[0], graph.number(-0.5F)});
  const auto deep = [&](const Value& value) {
    return graph.node("Unsqueeze", {value, graph.integers({-1})});
  };
  const Value box_places = deep(best[1]);
  const Value best_boxes = graph.node(
      "GatherND",
      {extended(graph, all.boxes, graph.number(0), graph.joined({row, graph.known({kBoxNumbers})})),
       box_places},
      {{"batch_dims", std::int64_t{1}}});
  const Value best_labels =
      graph.node("GatherND", {extended(graph, all.labels, graph.integer(0), row), box_places},
                 {{"batch_dims", std::int64_t{1}}});
  return {
      .boxes = graph.node("Where", {deep(is_found), decoder.in_image(best_boxes), graph.number(0)}),
      .scores = graph.node("Where", {is_found, best[0], graph.number(0)}),
      .labels = graph.node("Where", {is_found, best_labels, graph.integer(0)}),
      .counts =
          graph.node("ReduceSum", {graph.to(TensorType::kInt64, is_found), graph.integers({1})},
                     {{"keepdims", std::int64_t{0}}})};
}

AnchorValues all_anchors(OnnxGraph& graph, const ModelConfig& config, const HeadValues& heads,
                         const ImageSizes& sizes) {
  Decoder decoder(graph, config, sizes);
  const std::int64_t per_cell = decoder.anchors_per_cell();
  std::vector<Value> boxes, scores;
  for (std::size_t level = 0; level < kLevelCount; ++level) {
    graph.enter(cat("boxes/P", level + 3));
    const Ints columns = graph.element(decoder.grid(level), 1);
    const Ints cells = graph.times(graph.element(decoder.grid(level), 0), columns);
    // [N, P n, h, w] -> [N, h * w * P, n]: the anchors of a cell one after the other.
    const auto rows_of = [&](const Value& output, std::int64_t numbers) {
      const Value split =
          graph.node("Reshape", {output, graph.integers({0, per_cell * numbers, -1})});
      const Value turned =
          graph.node("Transpose", {split}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
      return graph.node("Reshape", {turned, graph.integers({0, -1, numbers})});
    };
    const Value places = graph.node(
        "Range", {graph.integer(0), graph.scalar_of(graph.times(cells, graph.known({per_cell}))),
                  graph.integer(1)});
    const Divided by_shape = divided(graph, places, graph.known({per_cell}));
    const Divided by_columns = divided(graph, by_shape.quotient, columns);
    boxes.push_back(
        decoder.boxes(level, rows_of(heads.deltas[level], kBoxNumbers),
                      {.x = by_columns.rest, .y = by_columns.quotient, .which = by_shape.rest}));
    scores.push_back(graph.node("Sigmoid", {rows_of(heads.logits[level], config.class_count)}));
  }
  graph.enter("outputs");
  return {.boxes = decoder.in_image(graph.node("Concat", boxes, {{"axis", std::int64_t{1}}})),
          .scores = graph.node("Concat", scores, {{"axis", std::int64_t{1}}})};
}

}  // namespace retina
