#include "shared/model/mobilenet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>

#include <cstddef>

namespace retina {

SqueezeExcitation::SqueezeExcitation(const ModelScope& scope, int channels, int squeezed)
    : fc1_(scope / "fc1", {.in_channels = channels, .out_channels = squeezed}),
      fc2_(scope / "fc2", {.in_channels = squeezed, .out_channels = channels}) {}

at::Tensor SqueezeExcitation::forward(const at::Tensor& input) const {
  const at::Tensor means = at::adaptive_avg_pool2d(input, {1, 1});  // [N, C, 1, 1]
  return input * at::hardsigmoid(fc2_.forward(fc1_.forward(means, {.relu = true})));
}

InvertedResidual::InvertedResidual(const ModelScope& scope, const InvertedResidualShape& shape,
                                   const ModelConfig& config)
    : shape_(shape) {
  const ModelScope block = scope / "block";
  std::size_t place = 0;
  const int wide = shape.expanded;
  if (shape.expands()) {
    expand_.emplace(block / place++, ConvShape{.in_channels = shape.in, .out_channels = wide},
                    config);
  }
  depthwise_.emplace(block / place++,
                     ConvShape{.in_channels = wide,
                               .out_channels = wide,
                               .kernel = shape.kernel,
                               .stride = shape.stride,
                               .groups = wide},
                     config);
  if (shape.excites) excitation_.emplace(block / place++, wide, shape.squeezed());
  project_.emplace(block / place, ConvShape{.in_channels = wide, .out_channels = shape.out},
                   config);
}

at::Tensor InvertedResidual::forward(const at::Tensor& input, const NormMode& mode) const {
  const auto activated = [&](const ConvNorm& conv, const at::Tensor& x) {
    if (!shape_.hardswish) return conv.forward(x, mode, {.relu = true});
    return at::hardswish(conv.forward(x, mode));
  };
  at::Tensor output = expand_ ? activated(*expand_, input) : input;
  output = activated(*depthwise_, output);
  if (excitation_) output = excitation_->forward(output);
  return project_->forward(output, mode, {.residual = shape_.adds_input() ? input : at::Tensor()});
}

MobileNetV3::MobileNetV3(const ModelScope& scope, const ModelConfig& config)
    : stem_(scope / 0,
            {.in_channels = 3, .out_channels = kMobileNetV3StemChannels, .kernel = 3, .stride = 2},
            config) {
  for (const InvertedResidualShape& shape : kMobileNetV3Large) {
    blocks_.emplace_back(scope / (blocks_.size() + 1), shape, config);
  }
  last_.emplace(scope / (blocks_.size() + 1),
                ConvShape{.in_channels = kMobileNetV3Large.back().out,
                          .out_channels = kMobileNetV3LastChannels},
                config);
}

std::array<at::Tensor, 3> MobileNetV3::forward(const at::Tensor& images,
                                               const NormMode& mode) const {
  at::Tensor output = at::hardswish(stem_.forward(images, mode));  // [N, 16, H/2, W/2]
  std::array<at::Tensor, 3> features;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    output = blocks_[block].forward(output, mode);
    if (block == kMobileNetV3C3) features[0] = output;
    if (block == kMobileNetV3C4) features[1] = output;
  }
  features[2] = at::hardswish(last_->forward(output, mode));
  return features;
}

}  // namespace retina
