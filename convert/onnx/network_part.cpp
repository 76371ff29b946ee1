// The networks of shared/model as ONNX, layer by layer.
#include <optional>
#include <utility>

#include "convert/onnx/parts.h"
#include "shared/base/cat.h"
#include "shared/model/head_shape.h"
#include "shared/model/resnet_shape.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

using Numbers = std::vector<std::int64_t>;

struct ConvShape {
  int stride = 1;
  bool padded = true;  // by kernel / 2
  bool exact = false;  // f32 even where others compute with 8 bits
};

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
      bias_ = graph.numbers(layer.bias, graph.place(name + ".bias"));
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
                     graph.numbers(layer.bias, graph.place(name + ".bias"))},
                    {{"transB", std::int64_t{1}}});
}

struct Block {
  std::string prefix;  // "backbone.body.layer2.0"
  int stride;
  bool bottleneck, project;
};

// One residual block: x -> x.
Value residual(OnnxGraph& graph, const NetworkArrays& arrays, const Block& block, const Value& x) {
  const int conv_count = block.bottleneck ? 3 : 2;
  const int strided_conv = block.bottleneck ? 2 : 1;  // the first 3x3 (ResNet v1.5)
  Value y = x;
  for (int number = 1; number <= conv_count; ++number) {
    const std::string name = cat("conv", number);
    const LayerArrays layer =
        arrays.folded(cat(block.prefix, ".", name), cat(block.prefix, ".bn", number));
    y = StoredConv(graph, name, layer, {.stride = number == strided_conv ? block.stride : 1})(y);
    if (number < conv_count) y = relu(graph, y);
  }
  Value shortcut = x;
  if (block.project) {
    const std::string place = block.prefix + ".downsample.";
    shortcut = StoredConv(graph, "downsample", arrays.folded(place + "0", place + "1"),
                          {.stride = block.stride})(x);
  }
  return relu(graph, sum(graph, y, shortcut));
}

// x of 256 channels normalised in 32 groups (Wu and He 2018), [N, 256, h, w]: as instances of a
// picture of 32 channels, since opset 17 has no group norm.
struct GroupNorm {
  Value weight, bias;  // [256, 1, 1]

  GroupNorm(OnnxGraph& graph, const NetworkArrays& arrays, const std::string& prefix,
            const std::string& name)
      : weight(stored(graph, arrays.at(prefix + ".weight"), name + ".weight")),
        bias(stored(graph, arrays.at(prefix + ".bias"), name + ".bias")) {}

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
    return graph.numbers(array, graph.place(name));
  }
};

// One head on all levels, which share its weights; what its last convolution gives.
struct HeadNames {
  std::string prefix;  // of the tensors
  std::string output;  // of the last convolution
};
std::array<Value, kLevelCount> head(OnnxGraph& graph, const ModelConfig& config,
                                    const NetworkArrays& arrays, const HeadNames& names,
                                    std::array<Value, kLevelCount> levels) {
  const bool normalised = config.head_norm == HeadNorm::kGroup;
  for (int depth = 0; depth < kHeadDepth; ++depth) {
    const std::string prefix = cat(names.prefix, "conv.", depth);
    const StoredConv conv(
        graph, cat("conv", depth),
        normalised ? arrays.without_bias(prefix + ".0") : arrays.layer(prefix + ".0"));
    std::optional<GroupNorm> norm;
    if (normalised) norm.emplace(graph, arrays, prefix + ".1", cat("norm", depth));
    for (Value& level : levels) {
      level = conv(level);
      if (norm) level = norm->apply(graph, graph.rounded(level));
      level = relu(graph, level);
    }
  }
  const StoredConv output(graph, names.output, arrays.layer(names.prefix + names.output),
                          {.exact = true});
  for (Value& level : levels) level = output(level);
  return levels;
}

Value cifar_logits(OnnxGraph& graph, const NetworkArrays& arrays, const Value& pixels) {
  graph.enter("body");
  Value x = pixels;
  for (int number = 1; number <= 4; ++number) {
    const bool ends_stage = number % 2 == 0;
    const std::string name = cat("conv", number);
    x = relu(graph, StoredConv(graph, name, arrays.layer(name), {.padded = !ends_stage})(x));
    if (ends_stage) x = max_pool(graph, x, 2, 0);
  }
  graph.enter("classification");
  const Value flat = graph.node("Flatten", {x});
  return linear(graph, "fc2", arrays.layer("fc2"),
                relu(graph, linear(graph, "fc1", arrays.layer("fc1"), flat)));
}

}  // namespace

std::array<Value, 3> body(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                          const std::string& prefix, const Value& pixels) {
  graph.enter("body");
  Value x = relu(graph, StoredConv(graph, "conv1", arrays.folded(prefix + "conv1", prefix + "bn1"),
                                   {.stride = 2, .exact = true})(pixels));
  x = max_pool(graph, x, 3, 1);
  std::array<Value, 3> features;
  const ResNetShape shape = resnet_shape(config.backbone);
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    for (int block = 0; block < shape.blocks[stage]; ++block) {
      const bool first = block == 0;
      const std::string place = cat("layer", stage + 1, ".", block);
      graph.enter("body/" + place);
      x = residual(graph, arrays,
                   {.prefix = prefix + place,
                    .stride = first && stage > 0 ? 2 : 1,
                    .bottleneck = shape.bottleneck,
                    .project = first && (stage > 0 || shape.bottleneck)},
                   x);
    }
    if (stage > 0) features[stage - 1] = x;
  }
  return features;
}

std::array<Value, kLevelCount> pyramid(OnnxGraph& graph, const ModelConfig& config,
                                       const NetworkArrays& arrays,
                                       const std::array<Value, 3>& features) {
  graph.enter("pyramid");
  const auto pyramid_conv = [&](const std::string& name, const ConvShape& shape = {}) {
    return StoredConv(graph, name, arrays.layer(kFpnPrefix + name), shape);
  };
  std::array<Value, kLevelCount> levels;
  Value top = pyramid_conv("inner_blocks.2.0")(features[2]);
  levels[2] = pyramid_conv("layer_blocks.2.0")(top);
  // Sides are multiples of 32, so that each level is exactly twice the one above it.
  const Value twice = graph.row({1, 1, 2, 2});
  for (const std::size_t level : {std::size_t{1}, std::size_t{0}}) {
    const Value side = pyramid_conv(cat("inner_blocks.", level, ".0"))(features[level]);
    const Value enlarged =
        graph.node("Resize", {top, "", twice},
                   {{"mode", std::string("nearest")},
                    {"nearest_mode", std::string("floor")},
                    {"coordinate_transformation_mode", std::string("asymmetric")}});
    top = sum(graph, side, enlarged);
    levels[level] = pyramid_conv(cat("layer_blocks.", level, ".0"))(top);
  }
  levels[3] =
      pyramid_conv("extra_blocks.p6", {.stride = 2})(config.p6_from_c5 ? features[2] : levels[2]);
  levels[4] = pyramid_conv("extra_blocks.p7", {.stride = 2})(relu(graph, levels[3]));
  return levels;
}

HeadValues heads(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                 const std::array<Value, kLevelCount>& levels) {
  graph.enter("classification");
  HeadValues values;
  values.logits =
      head(graph, config, arrays, {.prefix = kClassHeadPrefix, .output = kClassLayer}, levels);
  graph.enter("regression");
  values.deltas =
      head(graph, config, arrays, {.prefix = kBoxHeadPrefix, .output = kBoxLayer}, levels);
  return values;
}

Value classifier_logits(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                        const Value& pixels) {
  if (config.backbone == kCifarCnn) return cifar_logits(graph, arrays, pixels);
  const Value features = body(graph, config, arrays, /*prefix=*/"", pixels)[2];
  graph.enter("classification");
  const Value pooled = graph.node("Flatten", {graph.node("GlobalAveragePool", {features})});
  return linear(graph, "fc", arrays.layer("fc"), pooled);
}

}  // namespace retina
