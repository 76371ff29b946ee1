#include "shared/model/layers.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/zeros.h>

namespace retina {

at::Tensor ModelScope::parameter(const std::string& name, at::IntArrayRef sizes) const {
  const at::Tensor value = at::zeros(sizes, at::kFloat).requires_grad_();
  list_->push_back({.name = prefix_ + name, .tensor = value, .is_parameter = true});
  return value;
}

at::Tensor ModelScope::buffer(const std::string& name, const at::Tensor& value) const {
  list_->push_back({.name = prefix_ + name, .tensor = value, .is_parameter = false});
  return value;
}

Conv::Conv(const ModelScope& scope, const ConvShape& shape)
    : stride_(shape.stride),
      padding_(shape.kernel / 2),
      weight_(scope.parameter(
          "weight", {shape.out_channels, shape.in_channels, shape.kernel, shape.kernel})) {
  if (shape.bias) bias_ = scope.parameter("bias", {shape.out_channels});
}

at::Tensor Conv::with(const at::Tensor& input, const at::Tensor& weight,
                      const at::Tensor& bias) const {
  return at::conv2d(input, weight, bias, stride_, padding_);
}

}  // namespace retina
