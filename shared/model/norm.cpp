#include "shared/model/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>

#include "shared/base/error.h"
#include "shared/model/tensor_names.h"
#include "shared/ops/batch_norm.h"

namespace retina {
namespace {

constexpr double kMomentum = 0.1;  // of the running statistics, PyTorch's default

// "layer1.0.bn1".
std::string layer_name(const ModelScope& scope) {
  std::string name = scope.prefix();
  if (name.starts_with(kBodyPrefix)) name.erase(0, kBodyPrefix.size());
  if (name.ends_with('.')) name.pop_back();
  return name;
}

ConvShape without_bias(ConvShape shape) {
  shape.bias = false;
  return shape;
}

}  // namespace

Norm2d::Norm2d(const ModelScope& scope, std::int64_t channel_count, const ModelConfig& config)
    : eps_(config.norm_eps), frozen_(config.frozen_norm()), name_(layer_name(scope)) {
  if (frozen_) {
    weight_ = scope.buffer("weight", at::ones({channel_count}));
    bias_ = scope.buffer("bias", at::zeros({channel_count}));
  } else {
    weight_ = scope.parameter("weight", {channel_count});
    bias_ = scope.parameter("bias", {channel_count});
  }
  running_mean_ = scope.buffer("running_mean", at::zeros({channel_count}));
  running_var_ = scope.buffer("running_var", at::ones({channel_count}));
  if (!frozen_)
    num_batches_tracked_ = scope.buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

ConvNorm::ConvNorm(const ModelScope& conv, const ModelScope& norm, const ConvShape& shape,
                   const ModelConfig& config)
    : conv_(conv, without_bias(shape)), norm_(norm, shape.out_channels, config) {}

at::Tensor Norm2d::after(const Conv& conv, const at::Tensor& input, const NormMode& mode,
                         const Epilogue& then) const {
  RETINA_CHECK(!conv.has_bias());
  if (frozen_ || !mode.training) {  // into the convolution: no pass of its own over the output
    const at::Tensor scale = weight_ * (running_var_ + eps_).rsqrt();  // [C]
    const at::Tensor shift = bias_ - running_mean_ * scale;            // [C]
    return conv.with({conv.weight() * scale.view({-1, 1, 1, 1}), shift}, input, then);
  }
  num_batches_tracked_.add_(1);
  const at::Tensor output = conv.forward(input);
  if (mode.ranks != nullptr) {
    return with_epilogue(
        sync_batch_norm(output, weight_, bias_, running_mean_, running_var_,
                        {.ranks = mode.ranks, .name = name_, .momentum = kMomentum, .eps = eps_}),
        {}, then);
  }
  return batch_norm_relu(output, {.weight = weight_,
                                  .bias = bias_,
                                  .running_mean = running_mean_,
                                  .running_var = running_var_,
                                  .momentum = kMomentum,
                                  .eps = eps_,
                                  .residual = then.residual,
                                  .relu = then.relu});
}

}  // namespace retina
