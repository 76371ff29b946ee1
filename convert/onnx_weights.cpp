#include "convert/onnx_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>

#include "shared/base/error.h"

namespace retina {
namespace {

Array array_of(const at::Tensor& tensor, const std::vector<std::int64_t>& shape) {
  RETINA_CHECK(tensor.sizes() == at::IntArrayRef(shape));
  const at::Tensor numbers = tensor.to(at::kFloat).contiguous();
  const float* const first = numbers.const_data_ptr<float>();
  return {.shape = shape, .numbers = {first, first + numbers.numel()}};
}

LayerArrays arrays_of(const at::Tensor& weight, const at::Tensor& bias, const LayerShape& shape) {
  return {.weight = array_of(weight, shape), .bias = array_of(bias, {shape.front()})};
}

}  // namespace

OnnxWeights::OnnxWeights(const NamedTensors& state, double norm_eps) : norm_eps_(norm_eps) {
  for (const auto& [name, tensor] : state) tensors_.emplace(name, tensor.detach().cpu());
}

at::Tensor OnnxWeights::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  RETINA_CHECK(found != tensors_.end(), name);
  return found->second;
}

LayerArrays OnnxWeights::layer(const std::string& prefix, const LayerShape& shape) const {
  return arrays_of(at(prefix + ".weight"), at(prefix + ".bias"), shape);
}

LayerArrays OnnxWeights::folded(const std::string& conv, const std::string& norm,
                                const LayerShape& shape) const {
  const auto f64 = [&](const std::string& name) { return at(name).to(at::kDouble); };
  const at::Tensor scale =
      f64(norm + ".weight") * at::rsqrt(f64(norm + ".running_var") + norm_eps_);  // [out]
  return arrays_of(f64(conv + ".weight") * scale.view({-1, 1, 1, 1}),
                   f64(norm + ".bias") - f64(norm + ".running_mean") * scale, shape);
}

LayerArrays OnnxWeights::without_bias(const std::string& prefix, const LayerShape& shape) const {
  return arrays_of(at(prefix + ".weight"), at::zeros({shape.front()}), shape);
}

Array OnnxWeights::row(const std::string& name, std::int64_t count) const {
  return array_of(at(name), {count});
}

}  // namespace retina
