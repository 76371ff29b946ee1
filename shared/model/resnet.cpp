#include "shared/model/resnet.h"

#include <ATen/ops/max_pool2d.h>

#include <cstddef>

#include "shared/base/cat.h"
#include "shared/model/layers.h"
#include "shared/model/resnet_shape.h"

namespace retina {
namespace {

constexpr int kStemChannels = 64;

ConvShape bias_free(int in_channels, int out_channels, int kernel, int stride) {
  return {.in_channels = in_channels,
          .out_channels = out_channels,
          .kernel = kernel,
          .stride = stride,
          .bias = false};
}

}  // namespace

ResidualBlockImpl::ResidualBlockImpl(const Shape& shape, const ModelConfig& config) {
  const int in = shape.in_channels, mid = shape.mid_channels, stride = shape.stride;
  const int out = shape.bottleneck ? 4 * mid : mid;
  const std::vector<ConvShape> convs =
      shape.bottleneck ? std::vector{bias_free(in, mid, 1, 1), bias_free(mid, mid, 3, stride),
                                     bias_free(mid, out, 1, 1)}
                       : std::vector{bias_free(in, mid, 3, stride), bias_free(mid, out, 3, 1)};
  for (const ConvShape& conv : convs) {
    const std::size_t number = convs_.size() + 1;
    convs_.push_back(register_module(cat("conv", number), make_conv(conv)));
    norms_.push_back(register_module(cat("bn", number), Norm2d(conv.out_channels, config)));
  }
  if (stride != 1 || in != out) {
    project_ = make_conv(bias_free(in, out, 1, stride));
    project_norm_ = Norm2d(out, config);
    Numbered downsample;
    downsample->add(project_.ptr());
    downsample->add(project_norm_.ptr());
    register_module("downsample", downsample);
  }
}

at::Tensor ResidualBlockImpl::forward(const at::Tensor& input) {
  at::Tensor output = input;
  for (std::size_t i = 0; i < convs_.size(); ++i) {
    output = norms_[i]->after(convs_[i], output);
    if (i + 1 < convs_.size()) output.relu_();
  }
  output += project_.is_empty() ? input : project_norm_->after(project_, input);
  return output.relu_();
}

ResNetImpl::ResNetImpl(const ModelConfig& config) {
  conv1_ = register_module("conv1", make_conv(bias_free(3, kStemChannels, 7, 2)));
  bn1_ = register_module("bn1", Norm2d(kStemChannels, config));
  const ResNetShape shape = resnet_shape(config.backbone);
  int channels = kStemChannels;
  for (std::size_t stage = 0; stage < layers_.size(); ++stage) {
    Numbered layer;
    const int mid = kStemChannels << stage;
    for (int block = 0; block < shape.blocks[stage]; ++block) {
      layers_[stage].push_back(
          ResidualBlock(ResidualBlockImpl::Shape{.in_channels = channels,
                                                 .mid_channels = mid,
                                                 .stride = stage > 0 && block == 0 ? 2 : 1,
                                                 .bottleneck = shape.bottleneck},
                        config));
      layer->add(layers_[stage].back().ptr());
      channels = mid * shape.expansion();
    }
    register_module(cat("layer", stage + 1), layer);
  }
}

std::array<at::Tensor, 3> ResNetImpl::forward(const at::Tensor& images) {
  at::Tensor output = bn1_->after(conv1_, images).relu_();  // [N, 64, H/2, W/2]
  output = at::max_pool2d(output, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  std::array<at::Tensor, 4> stages;
  for (std::size_t stage = 0; stage < layers_.size(); ++stage) {
    for (auto& block : layers_[stage]) output = block->forward(output);
    stages[stage] = output;
  }
  return {stages[1], stages[2], stages[3]};
}

}  // namespace retina
