// The networks of shared/model as ONNX, layer by layer: pyramid, heads, classifiers' last layers.
// Bodies: body_part.cpp.
#include <optional>

#include "shared/base/cat.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"
#include "shared/onnx/layers.h"
#include "shared/onnx/parts.h"

namespace retina {
namespace {

// Normalises x [N, C, h, w] in 32 groups (Wu and He 2018): as instances of an image of 32 channels,
// since opset 17 has no group norm.
struct GroupNorm {
  Value weight, bias;  // [C, 1, 1]

  GroupNorm(OnnxGraph& graph, const std::string& name, const LayerArrays& layer)
      : weight(stored(graph, layer.weight, name + ".weight")),
        bias(stored(graph, layer.bias, name + ".bias")) {}

  Value apply(OnnxGraph& graph, const Value& x) const {
    const Value groups = graph.node("Reshape", {x, graph.integers({0, kHeadGroups, -1})});
    const auto all = [&](float number) {
      return graph.row(std::vector<float>(kHeadGroups, number));
    };
    const Value normal =
        graph.node("InstanceNormalization", {groups, all(1), all(0)}, {{"epsilon", 1e-5F}});
    const Value back = graph.node("Reshape", {normal, graph.node("Shape", {x})});
    return graph.node("Add", {graph.node("Mul", {back, weight}), bias});
  }

 private:
  static Value stored(OnnxGraph& graph, Array array, const std::string& name) {
    array.shape = {array.shape.at(0), 1, 1};
    return graph.trained(array, name);
  }
};

// Names of a head, which runs on all levels with the same weights and returns the outputs of its
// last convolution.
struct HeadNames {
  std::string prefix;    // of the tensors
  std::string output;    // of the last convolution
  std::int64_t numbers;  // outputs of that for each cell
};
std::array<Value, kLevelCount> head(OnnxGraph& graph, const ModelConfig& config,
                                    const NetworkArrays& arrays, const HeadNames& names,
                                    std::array<Value, kLevelCount> levels) {
  const bool normalised = config.head_norm == HeadNorm::kGroup;
  const int width = config.fpn_channels;
  for (int depth = 0; depth < config.head_convs; ++depth) {
    const std::string prefix = cat(names.prefix, "conv.", depth);
    const LayerShape shape = conv_of(width, width, /*kernel=*/3);
    const StoredConv conv(graph, cat("conv", depth),
                          normalised ? arrays.without_bias(prefix + ".0", shape)
                                     : arrays.layer(prefix + ".0", shape));
    std::optional<GroupNorm> norm;
    if (normalised) {
      norm.emplace(graph, cat("norm", depth),
                   LayerArrays{.weight = arrays.row(prefix + ".1.weight", width),
                               .bias = arrays.row(prefix + ".1.bias", width)});
    }
    for (Value& level : levels) {
      level = conv(level);
      if (norm) level = norm->apply(graph, graph.rounded(level));
      level = relu(graph, level);
    }
  }
  const StoredConv output(
      graph, names.output,
      arrays.layer(names.prefix + names.output, conv_of(names.numbers, width, /*kernel=*/3)),
      {.exact = true});
  for (Value& level : levels) level = output(graph.rounded(level));
  return levels;
}

Value cifar_logits(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                   const Value& pixels) {
  graph.enter("body");
  Value x = pixels;
  std::int64_t in = 3;
  for (std::size_t conv = 0; conv < kCifarWidths.size(); ++conv) {
    const bool ends_stage = conv % 2 == 1;
    const std::string name = cat("conv", conv + 1);
    const LayerArrays layer = arrays.layer(name, conv_of(kCifarWidths[conv], in, /*kernel=*/3));
    x = relu(graph, StoredConv(graph, name, layer, {.padded = !ends_stage})(x));
    if (ends_stage) x = max_pool(graph, x, 2, 0);
    in = kCifarWidths[conv];
  }
  graph.enter("classification");
  const Value flat = graph.node("Flatten", {x});
  const LayerArrays hidden =
      arrays.layer("fc1", {kCifarHidden, cifar_features(config.min_side_px)});
  return linear(graph, "fc2", arrays.layer("fc2", {config.class_count, kCifarHidden}),
                relu(graph, linear(graph, "fc1", hidden, flat)));
}

}  // namespace

std::array<Value, kLevelCount> pyramid(OnnxGraph& graph, const ModelConfig& config,
                                       const NetworkArrays& arrays,
                                       const std::array<Value, 3>& features) {
  graph.enter("pyramid");
  const std::array<int, 3> channels = feature_channels(config.backbone);
  const int width = config.fpn_channels;
  const auto inner = [&](std::size_t level) {
    const std::string name = cat("inner_blocks.", level, ".0");
    return StoredConv(
        graph, name,
        arrays.layer(kFpnPrefix + name, conv_of(width, channels[level], /*kernel=*/1)));
  };
  const auto smoothing = [&](const std::string& name, std::int64_t in, int stride = 1) {
    return StoredConv(graph, name,
                      arrays.layer(kFpnPrefix + name, conv_of(width, in, /*kernel=*/3)),
                      {.stride = stride});
  };
  std::array<Value, kLevelCount> levels;
  Value top = inner(2)(features[2]);
  levels[2] = smoothing("layer_blocks.2.0", width)(top);
  // Sides are multiples of 32, so that each level is exactly twice the one above it.
  const Value twice = graph.row({1, 1, 2, 2});
  for (const std::size_t level : {std::size_t{1}, std::size_t{0}}) {
    const Value side = inner(level)(features[level]);
    const Value enlarged =
        graph.node("Resize", {graph.rounded(top), "", twice},
                   {{"mode", std::string("nearest")},
                    {"nearest_mode", std::string("floor")},
                    {"coordinate_transformation_mode", std::string("asymmetric")}});
    top = sum(graph, side, enlarged);
    levels[level] = smoothing(cat("layer_blocks.", level, ".0"), width)(top);
  }
  levels[3] = config.p6_from_c5 ? smoothing("extra_blocks.p6", channels[2], 2)(features[2])
                                : smoothing("extra_blocks.p6", width, 2)(levels[2]);
  levels[4] = smoothing("extra_blocks.p7", width, 2)(relu(graph, graph.rounded(levels[3])));
  return levels;
}

HeadValues heads(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                 const std::array<Value, kLevelCount>& levels) {
  graph.enter("classification");
  HeadValues values;
  values.logits = head(graph, config, arrays,
                       {.prefix = kClassHeadPrefix,
                        .output = kClassLayer,
                        .numbers = std::int64_t{config.anchors_per_location} * config.class_count},
                       levels);
  graph.enter("regression");
  values.deltas = head(
      graph, config, arrays,
      {.prefix = kBoxHeadPrefix, .output = kBoxLayer, .numbers = config.anchors_per_location * 4},
      levels);
  return values;
}

Value classifier_logits(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                        const Value& pixels) {
  if (config.backbone == kCifarCnn) return cifar_logits(graph, config, arrays, pixels);
  const ClassifierPrefixes prefixes = classifier_prefixes(config.backbone);
  const std::int64_t channels = feature_channels(config.backbone).back();
  const Value features = body(graph, config, arrays, prefixes.body, pixels)[2];
  graph.enter("classification");
  const Value pooled = graph.node("Flatten", {graph.node("GlobalAveragePool", {features})});
  if (family_of(config.backbone) == BackboneFamily::kMobileNetV3) {
    const LayerArrays hidden = arrays.layer("classifier.0", {kMobileNetV3Hidden, channels});
    const Value x = graph.node("HardSwish", {linear(graph, "classifier.0", hidden, pooled)});
    return linear(graph, "classifier.3",
                  arrays.layer("classifier.3", {config.class_count, kMobileNetV3Hidden}), x);
  }
  return linear(graph, "fc", arrays.layer("fc", {config.class_count, channels}), pooled);
}

}  // namespace retina
