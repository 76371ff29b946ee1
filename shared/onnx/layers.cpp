#include "shared/onnx/layers.h"

#include <utility>

namespace retina {
namespace {

using Numbers = std::vector<std::int64_t>;

}  // namespace

StoredConv::StoredConv(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
                       const ConvPlan& plan)
    : graph_(graph), name_(name), bias_numbers_(layer.bias), exact_(plan.exact) {
  if (graph.rounds() && !exact_) {
    OnnxGraph::RoundedWeights rounded = graph.rounded_weights(layer.weight, name + ".weight");
    weight_ = rounded.value;
    scales_ = std::move(rounded.scales);
  } else {
    weight_ = graph.weights(layer.weight, name + ".weight");
    bias_ = graph.trained(layer.bias, name + ".bias");
  }
  const std::int64_t kernel = layer.weight.shape.at(2);
  const std::int64_t margin = plan.padded ? kernel / 2 : 0;
  attributes_ = {{"kernel_shape", Numbers{kernel, kernel}},
                 {"strides", Numbers{plan.stride, plan.stride}},
                 {"pads", Numbers{margin, margin, margin, margin}}};
  if (plan.groups > 1) attributes_.push_back({"group", std::int64_t{plan.groups}});
}

Value StoredConv::operator()(const Value& input) const {
  if (exact_) return graph_.node("Conv", {input, weight_, bias_}, attributes_);
  const Value rounded = graph_.rounded(input);
  const Value bias =
      graph_.rounds() ? graph_.rounded_bias(bias_numbers_, scales_, input, name_ + ".bias") : bias_;
  return graph_.node("Conv", {rounded, weight_, bias}, attributes_);
}

LayerShape conv_of(std::int64_t out, std::int64_t in, std::int64_t kernel) {
  return {out, in, kernel, kernel};
}

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

Value linear(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
             const Value& input) {
  return graph.node("Gemm",
                    {input, graph.weights(layer.weight, name + ".weight"),
                     graph.trained(layer.bias, name + ".bias")},
                    {{"transB", std::int64_t{1}}});
}

}  // namespace retina
