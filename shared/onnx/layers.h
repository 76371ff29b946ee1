// Layers of the networks' graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/onnx/parts.h"

namespace retina {

// Parameters of a convolution besides its weights' shape.
struct ConvPlan {
  int stride = 1;
  int groups = 1;
  bool padded = true;  // by kernel / 2
  bool exact = false;  // f32 even if others compute with 8 bits
};

// A convolution whose tensors are in the graph: it may run on several inputs. With int8, runtimes
// compute a convolution on 8 bits only if its output is used by one rounding and nothing else:
// every layer after a convolution takes its output rounded.
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
  std::vector<float> scales_{};  // scales of 8 bit weights
  std::vector<Attribute> attributes_{};
};

// Returns the shape of a convolution's weights; of a grouped one, `in` is a group's.
LayerShape conv_of(std::int64_t out, std::int64_t in, std::int64_t kernel);

// Adds a + b; both rounded if convolutions are, so that runtimes keep 8 bits from one to the next.
Value sum(OnnxGraph& graph, const Value& a, const Value& b);
Value relu(OnnxGraph& graph, const Value& input);
// Pools with stride 2.
Value max_pool(OnnxGraph& graph, const Value& input, std::int64_t kernel, std::int64_t margin);
// Computes y = x W^T + b.
Value linear(OnnxGraph& graph, const std::string& name, const LayerArrays& layer,
             const Value& input);

}  // namespace retina
