// The bodies of shared/model (body.h) as ONNX, layer by layer.
#include "shared/base/cat.h"
#include "shared/model/network_shape.h"
#include "shared/onnx/layers.h"
#include "shared/onnx/parts.h"

namespace retina {
namespace {

// Context for writing a body; `prefix` begins its tensors' names.
struct BodyWriter {
  OnnxGraph& graph;
  const NetworkArrays& arrays;
  const std::string& prefix;

  void enter(const std::string& place) const { graph.enter("body/" + place); }
};

// Names of a convolution and its norm in torchvision, behind the prefix; `stored`: of the
// convolution in the graph.
struct ConvNames {
  std::string conv, norm, stored;
};
// Returns the names of a Conv2dNormActivation.
ConvNames pair_of(const std::string& place, const std::string& stored) {
  return {place + ".0", place + ".1", stored};
}

// Writes a convolution with its norm folded in; `shape` as conv_of returns it.
Value conv_norm(const BodyWriter& body, const ConvNames& names, const LayerShape& shape,
                const Value& x, const ConvPlan& plan = {}) {
  const LayerArrays layer =
      body.arrays.folded(body.prefix + names.conv, body.prefix + names.norm, shape);
  return StoredConv(body.graph, names.stored, layer, plan)(x);
}

// --- ResNet --------------------------------------------------------------------------------------

struct ResidualPlan {
  std::string place;          // "layer2.0"
  std::int64_t in, mid, out;  // channels
  int stride, groups;
  bool bottleneck, project;
};

Value residual(const BodyWriter& body, const ResidualPlan& block, const Value& x) {
  const int conv_count = block.bottleneck ? 3 : 2;
  const int strided_conv = block.bottleneck ? 2 : 1;  // the first 3x3 (ResNet v1.5)
  Value y = x;
  std::int64_t in = block.in;
  for (int number = 1; number <= conv_count; ++number) {
    const bool is_last = number == conv_count;
    const bool is_strided = number == strided_conv;
    const int groups = block.bottleneck && is_strided ? block.groups : 1;
    const std::int64_t out = is_last ? block.out : block.mid;
    const std::string name = cat("conv", number);
    y = conv_norm(body, {cat(block.place, ".", name), cat(block.place, ".bn", number), name},
                  conv_of(out, in / groups, block.bottleneck && !is_strided ? 1 : 3), y,
                  {.stride = is_strided ? block.stride : 1, .groups = groups});
    if (!is_last) y = relu(body.graph, y);
    in = out;
  }
  Value shortcut = x;
  if (block.project) {
    shortcut = conv_norm(body, pair_of(block.place + ".downsample", "downsample"),
                         conv_of(block.out, block.in, /*kernel=*/1), x, {.stride = block.stride});
  }
  return relu(body.graph, sum(body.graph, y, shortcut));
}

std::array<Value, 3> resnet(const BodyWriter& body, const ResNetShape& shape, const Value& pixels) {
  constexpr std::int64_t kStemChannels = 64;
  Value x = relu(body.graph,
                 conv_norm(body, {"conv1", "bn1", "conv1"}, conv_of(kStemChannels, 3, /*kernel=*/7),
                           pixels, {.stride = 2, .exact = true}));
  // Rounded before the pool: the largest of rounded numbers is the largest, rounded, and the pool
  // then runs on 8 bits.
  x = max_pool(body.graph, body.graph.rounded(x), 3, 1);
  std::array<Value, 3> features;
  std::int64_t in = kStemChannels;
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    for (int number = 0; number < shape.blocks[stage]; ++number) {
      const bool first = number == 0;
      const ResidualPlan block{.place = cat("layer", stage + 1, ".", number),
                               .in = in,
                               .mid = shape.mid_channels(stage),
                               .out = shape.out_channels(stage),
                               .stride = first && stage > 0 ? 2 : 1,
                               .groups = shape.groups,
                               .bottleneck = shape.bottleneck,
                               .project = first && (stage > 0 || shape.bottleneck)};
      body.enter(block.place);
      x = residual(body, block, x);
      in = block.out;
    }
    if (stage > 0) features[stage - 1] = x;
  }
  return features;
}

// --- RegNet --------------------------------------------------------------------------------------

std::array<Value, 3> regnet(const BodyWriter& body, const RegNetShape& shape, const Value& pixels) {
  OnnxGraph& graph = body.graph;
  Value x = relu(
      graph, conv_norm(body, pair_of("stem", "stem"), conv_of(kRegNetStemChannels, 3, /*kernel=*/3),
                       pixels, {.stride = 2, .exact = true}));
  std::array<Value, 3> features;
  std::int64_t in = kRegNetStemChannels;
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    const std::int64_t out = shape.widths[stage];
    const int groups = shape.groups(stage);
    for (int number = 0; number < shape.blocks[stage]; ++number) {
      const std::string name = cat("block", stage + 1);
      const std::string place = cat("trunk_output.", name, ".", name, "-", number);
      const int stride = number == 0 ? 2 : 1;
      body.enter(cat(name, ".", number));
      Value y = relu(graph, conv_norm(body, pair_of(place + ".f.a", "a"), conv_of(out, in, 1), x));
      y = relu(graph, conv_norm(body, pair_of(place + ".f.b", "b"), conv_of(out, out / groups, 3),
                                y, {.stride = stride, .groups = groups}));
      y = conv_norm(body, pair_of(place + ".f.c", "c"), conv_of(out, out, 1), y);
      // The first block of a stage halves the size.
      const Value shortcut = number > 0 ? x
                                        : conv_norm(body, pair_of(place + ".proj", "proj"),
                                                    conv_of(out, in, 1), x, {.stride = stride});
      x = relu(graph, sum(graph, y, shortcut));
      in = out;
    }
    if (stage > 0) features[stage - 1] = x;
  }
  return features;
}

// --- MobileNetV3 ---------------------------------------------------------------------------------

// Writes squeeze and excitation: the input times numbers computed from its means.
Value excited(const BodyWriter& body, const std::string& place, const InvertedResidualShape& shape,
              const Value& input) {
  OnnxGraph& graph = body.graph;
  const auto dense = [&](const std::string& name, std::int64_t out, std::int64_t in,
                         const Value& x) {
    const LayerArrays layer =
        body.arrays.layer(cat(body.prefix, place, ".", name), conv_of(out, in, /*kernel=*/1));
    return StoredConv(graph, name, layer)(x);
  };
  const Value x = graph.rounded(input);
  const Value means = graph.node("GlobalAveragePool", {x});
  const Value squeezed = relu(graph, dense("fc1", shape.squeezed(), shape.expanded, means));
  const Value scales =
      graph.node("HardSigmoid", {dense("fc2", shape.expanded, shape.squeezed(), squeezed)},
                 {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
  return graph.node("Mul", {x, scales});
}

Value inverted_residual(const BodyWriter& body, const std::string& place,
                        const InvertedResidualShape& shape, const Value& x) {
  const auto activated = [&](const Value& y) {
    return body.graph.node(shape.hardswish ? "HardSwish" : "Relu", {y});
  };
  int number = 0;
  const auto next = [&] { return cat(place, ".block.", number++); };
  const std::int64_t wide = shape.expanded;
  Value y = x;
  if (shape.expands()) {
    y = activated(conv_norm(body, pair_of(next(), "expand"), conv_of(wide, shape.in, 1), y));
  }
  y = activated(conv_norm(body, pair_of(next(), "depthwise"), conv_of(wide, 1, shape.kernel), y,
                          {.stride = shape.stride, .groups = shape.expanded}));
  if (shape.excites) y = excited(body, next(), shape, y);
  y = conv_norm(body, pair_of(next(), "project"), conv_of(shape.out, wide, 1), y);
  return shape.adds_input() ? sum(body.graph, y, x) : y;
}

std::array<Value, 3> mobilenet(const BodyWriter& body, const Value& pixels) {
  OnnxGraph& graph = body.graph;
  const auto hardswish = [&](const Value& x) { return graph.node("HardSwish", {x}); };
  Value x = hardswish(conv_norm(body, pair_of("0", "stem"),
                                conv_of(kMobileNetV3StemChannels, 3, /*kernel=*/3), pixels,
                                {.stride = 2, .exact = true}));
  std::array<Value, 3> features;
  for (std::size_t block = 0; block < kMobileNetV3Large.size(); ++block) {
    const std::string place = cat(block + 1);
    body.enter(place);
    x = inverted_residual(body, place, kMobileNetV3Large[block], x);
    if (block == kMobileNetV3C3) features[0] = x;
    if (block == kMobileNetV3C4) features[1] = x;
  }
  const std::string last = cat(kMobileNetV3Large.size() + 1);
  body.enter(last);
  features[2] = hardswish(
      conv_norm(body, pair_of(last, "last"),
                conv_of(kMobileNetV3LastChannels, kMobileNetV3Large.back().out, /*kernel=*/1), x));
  return features;
}

}  // namespace

std::array<Value, 3> body(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                          const std::string& prefix, const Value& pixels) {
  graph.enter("body");
  const BodyWriter writer{.graph = graph, .arrays = arrays, .prefix = prefix};
  switch (family_of(config.backbone)) {
    case BackboneFamily::kResNet:
      return resnet(writer, resnet_shape(config.backbone), pixels);
    case BackboneFamily::kRegNet:
      return regnet(writer, regnet_shape(config.backbone), pixels);
    case BackboneFamily::kMobileNetV3:
      break;
  }
  return mobilenet(writer, pixels);
}

}  // namespace retina
