#include "convert/onnx_weights.h"

#include <ATen/ops/zeros.h>

#include "shared/base/cat.h"

namespace retina {
namespace {

Array array_of(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.to(at::kFloat).contiguous();
  const float* const first = numbers.const_data_ptr<float>();
  return {.shape = numbers.sizes().vec(), .numbers = {first, first + numbers.numel()}};
}

LayerArrays arrays_of(const ConvWeights& layer) {
  return {.weight = array_of(layer.weight), .bias = array_of(layer.bias)};
}

}  // namespace

OnnxWeights::OnnxWeights(const NamedTensors& state, double norm_eps)
    : weights_(state), norm_eps_(norm_eps) {}

LayerArrays OnnxWeights::layer(const std::string& prefix) const {
  return arrays_of(weights_.conv(prefix));
}

LayerArrays OnnxWeights::folded(const std::string& conv, const std::string& norm) const {
  return arrays_of(weights_.folded(conv, norm, norm_eps_));
}

LayerArrays OnnxWeights::without_bias(const std::string& prefix) const {
  const at::Tensor weight = weights_.at(prefix + ".weight");
  return {.weight = array_of(weight), .bias = array_of(at::zeros({weight.size(0)}))};
}

OnnxRequest request_of(const InferenceHeader& header, const ValueRanges& ranges) {
  std::string names, ids;
  for (const Category& category : header.categories) {
    names += category.name + "\n";
    ids += cat(category.id, "\n");
  }
  return {.form = *header.onnx,
          .metadata = {{kInferenceHeaderFile, header.to_json()},
                       {"names", names},
                       {"category_ids", ids}},
          .ranges = ranges};
}

Array OnnxWeights::at(const std::string& name) const {
  return array_of(weights_.at(name));
}

}  // namespace retina
