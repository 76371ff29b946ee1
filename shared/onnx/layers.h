// The layers that the networks' graphs are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/onnx/parts.h"

namespace retina {

// How a convolution goes over its input, beside its weights' shape.
struct ConvPlan {
  int stride = 1;
  int groups = 1;
  bool padded = true;  // by kernel / 2
  bool exact = false;  // f32 even where others compute with 8 bits
};

// A convolution whose tensors are in the graph: it may run on several inputs. With int8 runtimes
// compute a convolution on 8 bits where its output goes nowhere but into one rounding: whatever
// takes a convolution's output takes it rounded.
class StoredConv {
 public:
  StoredConv(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
             const ConvPlan& plan = {});

  Value operator()(const Value& input) const;

 private:
  OnnxGraph& graph_;
  std::string name_;
  Array bias_numbers_;
  bool exact_ = false;
  Value weight_, bias_{};
  std::vector<float> scales_{};  // of 8 bit weights
  std::vector<Attribute> attributes_{};
};

// The shape of a convolution's weights; of one in groups, `in` is a group's.
LayerShape conv_of(std::int64_t out, std::int64_t in, std::int64_t kernel);

// a + b; both rounded where convolutions are, so that runtimes keep 8 bits from one to the next.
Value sum(OnnxGraph& graph, const Value& a, const Value& b);
Value relu(OnnxGraph& graph, const Value& input);
// Of stride 2.
Value max_pool(OnnxGraph& graph, const Value& input, std::int64_t kernel, std::int64_t margin);
// y = x W^T + b.
Value linear(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
             const Value& input);

}  // namespace retina
