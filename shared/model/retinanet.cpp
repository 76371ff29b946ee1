#include "shared/model/retinanet.h"

#include <cmath>

#include "shared/base/error.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

constexpr double kHeadStd = 0.01;  // Lin et al. 2017, 4.1

}  // namespace

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
