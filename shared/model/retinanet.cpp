#include "shared/model/retinanet.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cmath>
#include <cstddef>

#include "shared/base/error.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

constexpr double kHeadStd = 0.01;  // Lin et al. 2017, 4.1

struct PyramidConv {
  int in_channels, kernel, stride;
};

Conv pyramid_conv(const ModelScope& scope, const ModelConfig& config, const PyramidConv& conv) {
  return {scope,
          {.in_channels = conv.in_channels,
           .out_channels = config.fpn_channels,
           .kernel = conv.kernel,
           .stride = conv.stride,
           .bias = true}};
}

// Returns `top` at the size of `feature`. On a GPU in the type of `top`: autocast would make it
// f32.
at::Tensor upsampled(const at::Tensor& top, const at::Tensor& feature) {
  const c10::impl::ExcludeDispatchKeyGuard as_it_is(c10::DispatchKey::AutocastCUDA);
  return at::upsample_nearest2d(top, {feature.size(2), feature.size(3)});
}

}  // namespace

Fpn::Fpn(const ModelScope& scope, const ModelConfig& config) : p6_from_c5_(config.p6_from_c5) {
  // torchvision wraps each convolution for an optional norm: hence the "0" behind its number.
  const auto channels = feature_channels(config.backbone);
  const int width = config.fpn_channels;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    inner_.push_back(pyramid_conv(scope / "inner_blocks" / i / 0, config, {channels[i], 1, 1}));
  }
  for (std::size_t i = 0; i < channels.size(); ++i) {
    layer_.push_back(pyramid_conv(scope / "layer_blocks" / i / 0, config, {width, 3, 1}));
  }
  const ModelScope extra = scope / "extra_blocks";
  p6_ = pyramid_conv(extra / "p6", config, {p6_from_c5_ ? channels.back() : width, 3, 2});
  p7_ = pyramid_conv(extra / "p7", config, {width, 3, 2});
}

std::array<at::Tensor, kLevelCount> Fpn::forward(const std::array<at::Tensor, 3>& features) const {
  std::array<at::Tensor, kLevelCount> pyramid;
  at::Tensor top = inner_[2].forward(features[2]);  // [N, C, h5, w5]
  pyramid[2] = layer_[2].forward(top);
  for (const std::size_t level : {std::size_t{1}, std::size_t{0}}) {
    const at::Tensor& feature = features[level];
    top = inner_[level].forward(feature, {.residual = upsampled(top, feature)});
    pyramid[level] = layer_[level].forward(top);
  }
  pyramid[3] = p6_->forward(p6_from_c5_ ? features[2] : pyramid[2]);
  pyramid[4] = p7_->forward(at::relu(pyramid[3]));
  return pyramid;
}

RetinaNet::RetinaNet(const ModelConfig& config)
    : Network(config, {.body = kBodyPrefix, .class_layer = kClassLayerPrefix}),
      body_(make_body(scope(kBodyPrefix), config)),
      fpn_(scope(kFpnPrefix), config),
      classification_(scope(kClassHeadPrefix), config.class_count, kClassLayer, config),
      regression_(scope(kBoxHeadPrefix), 4, kBoxLayer, config) {
  RETINA_CHECK(config.task == Task::kDetection);
}

HeadOutputs RetinaNet::forward(const at::Tensor& images) const {
  RETINA_CHECK(images.dim() == 4 && images.size(1) == 3);
  RETINA_CHECK(images.size(2) % kPadMultiplePx == 0 && images.size(3) % kPadMultiplePx == 0,
               "images must be padded to a multiple of ", kPadMultiplePx, ", got ", images.size(2),
               " x ", images.size(3));
  const auto pyramid = fpn_.forward(body_->forward(images, norm_mode()));
  return {.logits = classification_.forward(pyramid), .deltas = regression_.forward(pyramid)};
}

StartValue RetinaNet::start_value(const std::string& name, const at::Tensor& like) const {
  if (name == kClassLayerPrefix + "bias") {
    return {.scale = -std::log((1 - kPriorProbability) / kPriorProbability)};
  }
  if (like.dim() != 4 || name.starts_with(kBodyPrefix)) return body_start_value(name, like);
  if (name.starts_with(kFpnPrefix)) {  // He et al. 2015's uniform, fan in, linear
    const auto fan_in = static_cast<double>(like.size(1) * like.size(2) * like.size(3));
    return {.kind = StartValue::Kind::kUniform, .scale = std::sqrt(3 / fan_in)};
  }
  return {.kind = StartValue::Kind::kNormal, .scale = kHeadStd};
}

}  // namespace retina
