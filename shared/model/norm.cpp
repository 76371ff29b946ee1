#include "shared/model/norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>

#include "shared/base/error.h"
#include "shared/model/sync_norm.h"

namespace retina {
namespace {

constexpr double kMomentum = 0.1;  // of the running statistics, PyTorch's default

at::IntArrayRef two(const torch::ExpandingArray<2>& pair) {
  return {pair->data(), 2};
}

}  // namespace

Norm2dImpl::Norm2dImpl(std::int64_t channel_count, const ModelConfig& config)
    : eps_(config.norm_eps), frozen_(config.frozen_norm()) {
  weight = at::ones({channel_count});
  bias = at::zeros({channel_count});
  if (frozen_) {
    register_buffer("weight", weight);
    register_buffer("bias", bias);
  } else {
    register_parameter("weight", weight);
    register_parameter("bias", bias);
  }
  running_mean = register_buffer("running_mean", at::zeros({channel_count}));
  running_var = register_buffer("running_var", at::ones({channel_count}));
  if (!frozen_) {
    num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  }
}

void Norm2dImpl::share_statistics(RankSum* ranks, const std::string& name) {
  ranks_ = frozen_ ? nullptr : ranks;
  name_ = name;
}

at::Tensor Norm2dImpl::after(const torch::nn::Conv2d& conv, const at::Tensor& input) {
  const auto& options = conv->options;
  const auto padding = std::get<torch::ExpandingArray<2>>(options.padding());
  RETINA_CHECK(!options.bias());
  if (frozen_) {
    const at::Tensor scale = weight * (running_var + eps_).rsqrt();  // [C]
    const at::Tensor shift = bias - running_mean * scale;            // [C]
    return at::conv2d(input, conv->weight * scale.view({-1, 1, 1, 1}), shift, two(options.stride()),
                      two(padding));
  }
  if (is_training()) num_batches_tracked.add_(1);
  const at::Tensor output =
      at::conv2d(input, conv->weight, {}, two(options.stride()), two(padding));
  if (is_training() && ranks_ != nullptr) {
    return sync_batch_norm(output, weight, bias, running_mean, running_var,
                           {.ranks = ranks_, .name = name_, .momentum = kMomentum, .eps = eps_});
  }
  return at::batch_norm(output, weight, bias, running_mean, running_var, is_training(), kMomentum,
                        eps_, /*cudnn_enabled=*/true);
}

}  // namespace retina
