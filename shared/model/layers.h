// The building blocks of every part of the network: its tensors under torchvision's names, and the
// convolution.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace retina {

// A tensor of a network. A parameter can learn; a buffer (a running statistic, a frozen weight)
// never does.
struct ModelTensor {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = false;
};

// The place in a network where a part is built. Tensors that a part makes through its scope are
// added to the network's list, in the order of making.
class ModelScope {
 public:
  // Builds into `list`; `prefix` is "" or ends in a dot: "backbone.body.".
  ModelScope(std::vector<ModelTensor>& list, std::string prefix)
      : list_(&list), prefix_(std::move(prefix)) {}

  // Returns the scope of a child: scope / "layer1" / 0 has the prefix "backbone.body.layer1.0.".
  ModelScope operator/(const std::string& child) const { return {*list_, prefix_ + child + "."}; }
  ModelScope operator/(std::size_t child) const { return *this / std::to_string(child); }
  const std::string& prefix() const { return prefix_; }

  // Makes a parameter: zero, f32, with requires_grad.
  at::Tensor parameter(const std::string& name, at::IntArrayRef sizes) const;
  at::Tensor buffer(const std::string& name, const at::Tensor& value) const;

 private:
  std::vector<ModelTensor>* list_;
  std::string prefix_;
};

struct ConvShape {
  int in_channels = 0;
  int out_channels = 0;
  int kernel = 1;
  int stride = 1;
  int groups = 1;  // number of convolutions side by side; in_channels: each channel alone
  bool bias = true;
  bool same = true;  // padded so that stride 1 keeps the size; false: not padded
};

// Operations after a convolution, or after its norm: y + residual, then a ReLU.
struct Epilogue {
  at::Tensor residual = {};  // y's shape, or undefined
  bool relu = false;
};

// Returns `output` with `bias` ([C] or undefined) and the operations after it; takes the output's
// memory.
at::Tensor with_epilogue(const at::Tensor& output, const at::Tensor& bias, const Epilogue& then);

// A square convolution. On a CPU a ReLU after it stays an operator of its own: as a part of the
// convolution (oneDNN's post-ops) it turns NaN into 0, and a diverged run would look healthy.
class Conv {
 public:
  Conv(const ModelScope& scope, const ConvShape& shape);

  // Computes [N, in, H, W] -> [N, out, ceil(H / stride), ceil(W / stride)] if it is padded.
  at::Tensor forward(const at::Tensor& input, const Epilogue& then = {}) const {
    return with({weight_, bias_}, input, then);
  }
  struct Values {
    at::Tensor weight, bias;  // [out, in / groups, kernel, kernel], [out] or undefined
  };
  // Computes the convolution with `values` in place of its own.
  at::Tensor with(const Values& values, const at::Tensor& input, const Epilogue& then) const;

  const at::Tensor& weight() const { return weight_; }
  bool has_bias() const { return bias_.defined(); }

 private:
  std::int64_t stride_, padding_, groups_;
  at::Tensor weight_, bias_;  // [out, in / groups, kernel, kernel], [out] or undefined
};

}  // namespace retina
