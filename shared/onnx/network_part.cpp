// The networks of shared/model as ONNX, layer by layer.
#include <optional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"
#include "shared/onnx/parts.h"

namespace retina {
namespace {

using Numbers = std::vector<std::int64_t>;

struct ConvShape {
  int stride = 1;
  bool padded = true;  // by kernel / 2
  bool exact = false;  // f32 even where others compute with 8 bits
};

// With int8 runtimes compute a convolution on 8 bits where its output goes nowhere but into one
// rounding: whatever takes a convolution's output takes it rounded.

// A convolution whose tensors are in the graph: it may run on several inputs.
class StoredConv {
 public:
  StoredConv(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
             const ConvShape& shape = {})
      : graph_(graph), name_(name), bias_numbers_(layer.bias) {
    if (graph.rounds() && !shape.exact) {
      OnnxGraph::RoundedWeights rounded = graph.rounded_weights(layer.weight, name + ".weight");
      weight_ = rounded.value;
      scales_ = std::move(rounded.scales);
    } else {
      weight_ = graph.weights(layer.weight, name + ".weight");
      bias_ = graph.trained(layer.bias, name + ".bias");
    }
    exact_ = shape.exact;
    const std::int64_t kernel = layer.weight.shape.at(2);
    const std::int64_t margin = shape.padded ? kernel / 2 : 0;
    attributes_ = {{"kernel_shape", Numbers{kernel, kernel}},
                   {"strides", Numbers{shape.stride, shape.stride}},
                   {"pads", Numbers{margin, margin, margin, margin}}};
  }

  Value operator()(const Value& input) const {
    if (exact_) return graph_.node("Conv", {input, weight_, bias_}, attributes_);
    const Value rounded = graph_.rounded(input);
    const Value bias = graph_.rounds()
                           ? graph_.rounded_bias(bias_numbers_, scales_, input, name_ + ".bias")
                           : bias_;
    return graph_.node("Conv", {rounded, weight_, bias}, attributes_);
  }

 private:
  OnnxGraph& graph_;
  std::string name_;
  Array bias_numbers_;
  bool exact_ = false;
  Value weight_, bias_{};
  std::vector<float> scales_{};  // of 8 bit weights
  std::vector<Attribute> attributes_{};
};

// a + b; both rounded where convolutions are, so that runtimes keep 8 bits from one to the next.
Value sum(OnnxGraph& graph, const Value& a, const Value& b) {
  const Value first = graph.rounded(a), second = graph.rounded(b);
  return graph.node("Add", {first, second});
}

Value relu(OnnxGraph& graph, const Value& input) {
  return graph.node("Relu", {input});
}

Value max_pool(OnnxGraph& graph, const Value& input, std::int64_t kernel, std::int64_t margin) {
  return graph.node("MaxPool", {input},
                    {{"kernel_shape", Numbers{kernel, kernel}},
                     {"strides", Numbers{2, 2}},
                     {"pads", Numbers{margin, margin, margin, margin}}});
}

// y = x W^T + b.
Value linear(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
             const Value& input) {
  return graph.node("Gemm",
                    {input, graph.weights(layer.weight, name + ".weight"),
                     graph.trained(layer.bias, name + ".bias")},
                    {{"transB", std::int64_t{1}}});
}

struct Block {
  std::string prefix;       // "backbone.body.layer2.0"
  std::int64_t in, planes;  // channels before it, and of its 3x3 convolutions
  int stride;
  bool bottleneck, project;
  std::int64_t out() const { return bottleneck ? 4 * planes : planes; }
};

LayerShape conv_of(std::int64_t out, std::int64_t in, std::int64_t kernel) {
  return {out, in, kernel, kernel};
}

// One residual block: x -> x.
Value residual(OnnxGraph& graph, const NetworkArrays& arrays, const Block& block, const Value& x) {
  const int conv_count = block.bottleneck ? 3 : 2;
  const int strided_conv = block.bottleneck ? 2 : 1;  // the first 3x3 (ResNet v1.5)
  Value y = x;
  std::int64_t in = block.in;
  for (int number = 1; number <= conv_count; ++number) {
    const bool is_last = number == conv_count;
    const LayerShape shape = conv_of(is_last ? block.out() : block.planes, in,
                                     block.bottleneck && number != strided_conv ? 1 : 3);
    const std::string name = cat("conv", number);
    const LayerArrays layer =
        arrays.folded(cat(block.prefix, ".", name), cat(block.prefix, ".bn", number), shape);
    y = StoredConv(graph, name, layer, {.stride = number == strided_conv ? block.stride : 1})(y);
    if (!is_last) y = relu(graph, y);
    in = shape.front();
  }
  Value shortcut = x;
  if (block.project) {
    const std::string place = block.prefix + ".downsample.";
    shortcut = StoredConv(
        graph, "downsample",
        arrays.folded(place + "0", place + "1", conv_of(block.out(), block.in, /*kernel=*/1)),
        {.stride = block.stride})(x);
  }
  return relu(graph, sum(graph, y, shortcut));
}

// x [N, C, h, w] normalised in 32 groups (Wu and He 2018): as instances of an image of 32 channels,
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

// One head on all levels, which share its weights; what its last convolution gives.
struct HeadNames {
  std::string prefix;    // of the tensors
  std::string output;    // of the last convolution
  std::int64_t numbers;  // that it gives for each cell
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

std::array<Value, 3> body(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                          const std::string& prefix, const Value& pixels) {
  graph.enter("body");
  constexpr std::int64_t kStemChannels = 64;
  const LayerArrays stem =
      arrays.folded(prefix + "conv1", prefix + "bn1", conv_of(kStemChannels, 3, /*kernel=*/7));
  Value x = relu(graph, StoredConv(graph, "conv1", stem, {.stride = 2, .exact = true})(pixels));
  // Rounded before the pool: the largest of rounded numbers is the largest, rounded, and the pool
  // then runs on 8 bits.
  x = max_pool(graph, graph.rounded(x), 3, 1);
  std::array<Value, 3> features;
  const ResNetShape shape = resnet_shape(config.backbone);
  std::int64_t in = kStemChannels;
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    for (int number = 0; number < shape.blocks[stage]; ++number) {
      const bool first = number == 0;
      const std::string place = cat("layer", stage + 1, ".", number);
      graph.enter("body/" + place);
      const Block block{.prefix = prefix + place,
                        .in = in,
                        .planes = kStemChannels << stage,
                        .stride = first && stage > 0 ? 2 : 1,
                        .bottleneck = shape.bottleneck,
                        .project = first && (stage > 0 || shape.bottleneck)};
      x = residual(graph, arrays, block, x);
      in = block.out();
    }
    if (stage > 0) features[stage - 1] = x;
  }
  return features;
}

std::array<Value, kLevelCount> pyramid(OnnxGraph& graph, const ModelConfig& config,
                                       const NetworkArrays& arrays,
                                       const std::array<Value, 3>& features) {
  graph.enter("pyramid");
  const std::array<int, 3> channels = resnet_channels(config.backbone);
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
                        .numbers = kAnchorsPerCell * std::int64_t{config.class_count}},
                       levels);
  graph.enter("regression");
  values.deltas =
      head(graph, config, arrays,
           {.prefix = kBoxHeadPrefix, .output = kBoxLayer, .numbers = kAnchorsPerCell * 4}, levels);
  return values;
}

Value classifier_logits(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                        const Value& pixels) {
  if (config.backbone == kCifarCnn) return cifar_logits(graph, config, arrays, pixels);
  const Value features = body(graph, config, arrays, /*prefix=*/"", pixels)[2];
  graph.enter("classification");
  const Value pooled = graph.node("Flatten", {graph.node("GlobalAveragePool", {features})});
  return linear(graph, "fc",
                arrays.layer("fc", {config.class_count, resnet_channels(config.backbone).back()}),
                pooled);
}

}  // namespace retina
