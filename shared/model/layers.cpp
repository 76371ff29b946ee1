#include "shared/model/layers.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "shared/base/error.h"
#include "shared/ops/bias_relu.h"

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
      padding_(shape.same ? shape.kernel / 2 : 0),
      groups_(shape.groups),
      weight_(scope.parameter("weight", {shape.out_channels, shape.in_channels / shape.groups,
                                         shape.kernel, shape.kernel})) {
  if (shape.bias) bias_ = scope.parameter("bias", {shape.out_channels});
}

at::Tensor with_epilogue(at::Tensor output, const at::Tensor& bias, const Epilogue& then) {
  if (output.is_cuda()) {
    at::Tensor residual = then.residual;
    if (residual.defined()) residual = residual.to(output.scalar_type());
    return bias_relu(output, {.bias = bias, .residual = residual, .relu = then.relu});
  }
  RETINA_CHECK(!bias.defined());
  if (then.residual.defined()) output += then.residual;
  return then.relu ? output.relu_() : output;
}

at::Tensor Conv::with(const Values& values, const at::Tensor& input, const Epilogue& then) const {
  const at::Tensor& bias = values.bias;
  const auto convolved = [&](const at::Tensor& pixels, const at::Tensor& offset) {
    return at::conv2d(pixels, values.weight, offset, stride_, padding_, /*dilation=*/1, groups_);
  };
  // On a GPU without bias, since cuDNN's convolution has none: LibTorch would add it in a pass of
  // its own.
  if (input.is_cuda()) return with_epilogue(convolved(input, {}), bias, then);
  // LibTorch 2.11 on CPUs with AMX, in bfloat16, with strides over one or two pixels, leaves parts
  // of the output unwritten, and gradients of weights that meet nothing but padding. These maps are
  // tiny, so they are computed in f32.
  const bool has_thin_side = stride_ > 1 && (input.size(2) <= 2 || input.size(3) <= 2);
  if (has_thin_side && at::autocast::is_autocast_enabled(at::kCPU)) {
    const c10::impl::ExcludeDispatchKeyGuard in_f32(c10::DispatchKey::AutocastCPU);
    return with_epilogue(convolved(input.to(at::kFloat), bias), {}, then);
  }
  return with_epilogue(convolved(input, bias), {}, then);
}

}  // namespace retina
