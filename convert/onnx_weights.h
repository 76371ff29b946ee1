// A trained network's tensors as the ONNX writer takes them: f32 numbers, batch norms folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "shared/onnx/parts.h"
#include "shared/ops/named_tensor.h"

namespace retina {

class OnnxWeights : public NetworkArrays {
 public:
  // `state` comes from state_of (network.h); `norm_eps` is the batch norms' epsilon. Names must
  // exist and have the shapes that are asked for: load_state has checked the architecture.
  OnnxWeights(const NamedTensors& state, double norm_eps);

  LayerArrays layer(const std::string& prefix, const LayerShape& shape) const override;
  // Returns the convolution followed by the batch norm as one convolution:
  //   weight * g, bias - mean * g, where g = gamma / sqrt(var + eps)
  // computed in f64, rounded once (Convert.FoldingEqualsConvolutionThenNorm).
  LayerArrays folded(const std::string& conv, const std::string& norm,
                     const LayerShape& shape) const override;
  LayerArrays without_bias(const std::string& prefix, const LayerShape& shape) const override;
  Array row(const std::string& name, std::int64_t count) const override;

 private:
  at::Tensor at(const std::string& name) const;

  std::map<std::string, at::Tensor> tensors_{};
  double norm_eps_;
};

}  // namespace retina
