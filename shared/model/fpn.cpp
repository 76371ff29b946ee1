#include "shared/model/fpn.h"

#include <ATen/ops/relu.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <cstddef>

#include "shared/model/layers.h"
#include "shared/model/resnet_shape.h"

namespace retina {
namespace {

torch::nn::Conv2d pyramid_conv(int in_channels, int kernel, int stride) {
  return make_conv({.in_channels = in_channels,
                    .out_channels = kPyramidChannels,
                    .kernel = kernel,
                    .stride = stride,
                    .bias = true});
}

// One convolution under the name "0": torchvision wraps each for an optional norm.
Numbered wrap(const torch::nn::Conv2d& conv) {
  Numbered block;
  block->add(conv.ptr());
  return block;
}

}  // namespace

FpnImpl::FpnImpl(const ModelConfig& config) : p6_from_c5_(config.p6_from_c5) {
  const auto channels = resnet_channels(config.backbone);
  Numbered inner_blocks, layer_blocks, extra_blocks;
  for (const int in_channels : channels) {
    inner_.push_back(pyramid_conv(in_channels, 1, 1));
    layer_.push_back(pyramid_conv(kPyramidChannels, 3, 1));
    inner_blocks->add(wrap(inner_.back()).ptr());
    layer_blocks->add(wrap(layer_.back()).ptr());
  }
  register_module("inner_blocks", inner_blocks);
  register_module("layer_blocks", layer_blocks);
  p6_ = extra_blocks->register_module(
      "p6", pyramid_conv(p6_from_c5_ ? channels.back() : kPyramidChannels, 3, 2));
  p7_ = extra_blocks->register_module("p7", pyramid_conv(kPyramidChannels, 3, 2));
  register_module("extra_blocks", extra_blocks);
}

std::array<at::Tensor, kLevelCount> FpnImpl::forward(const std::array<at::Tensor, 3>& features) {
  std::array<at::Tensor, kLevelCount> pyramid;
  at::Tensor top = inner_[2]->forward(features[2]);  // [N, 256, h5, w5]
  pyramid[2] = layer_[2]->forward(top);
  for (const std::size_t level : {std::size_t{1}, std::size_t{0}}) {
    const at::Tensor lateral = inner_[level]->forward(features[level]);
    top = lateral + at::upsample_nearest2d(top, {lateral.size(2), lateral.size(3)});
    pyramid[level] = layer_[level]->forward(top);
  }
  pyramid[3] = p6_->forward(p6_from_c5_ ? features[2] : pyramid[2]);
  pyramid[4] = p7_->forward(at::relu(pyramid[3]));
  return pyramid;
}

}  // namespace retina
