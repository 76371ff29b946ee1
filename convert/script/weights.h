// A trained model's tensors by name, and convolutions with their batch norm folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "shared/ops/named_tensor.h"

namespace retina {

// A convolution or dense layer ready to run: f32, on the CPU, without gradient.
struct ConvWeights {
  at::Tensor weight{};  // [out, in, k, k] or [out, in]
  at::Tensor bias{};    // [out]
};

class Weights {
 public:
  // `state` as state_of (network.h) gives it.
  explicit Weights(const NamedTensors& state);

  // The name must exist: load_state has checked the architecture.
  at::Tensor at(const std::string& name) const;

  // `prefix`.weight and `prefix`.bias.
  ConvWeights conv(const std::string& prefix) const;

  // The bias-free convolution `conv` followed by the batch norm `norm`, as one convolution:
  //   weight * g, bias - mean * g, where g = gamma / sqrt(var + eps)
  // computed in f64, rounded once (Convert.FoldingEqualsConvolutionThenNorm).
  ConvWeights folded(const std::string& conv, const std::string& norm, double eps) const;

 private:
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace retina
