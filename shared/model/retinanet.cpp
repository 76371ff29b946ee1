#include "shared/model/retinanet.h"

#include <ATen/core/grad_mode.h>

#include "shared/base/error.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

// Checked before any member is built, so that a bad value is reported as the user's.
const ModelConfig& validated(const ModelConfig& config) {
  config.validate();
  return config;
}

}  // namespace

RetinaNet::RetinaNet(const ModelConfig& config)
    : config_(validated(config)),
      body_(ModelScope(tensors_, kBodyPrefix), config_),
      fpn_(ModelScope(tensors_, kFpnPrefix), config_),
      classification_(ModelScope(tensors_, kClassHeadPrefix), config_.class_count, kClassLayer,
                      config_),
      regression_(ModelScope(tensors_, kBoxHeadPrefix), 4, kBoxLayer, config_) {}

HeadOutputs RetinaNet::forward(const at::Tensor& images) const {
  RETINA_CHECK(images.dim() == 4 && images.size(1) == 3);
  RETINA_CHECK(images.size(2) % kPadMultiplePx == 0 && images.size(3) % kPadMultiplePx == 0,
               "images must be padded to a multiple of ", kPadMultiplePx, ", got ", images.size(2),
               " x ", images.size(3));
  const auto pyramid = fpn_.forward(body_.forward(images, norm_mode_));
  return {.logits = classification_.forward(pyramid), .deltas = regression_.forward(pyramid)};
}

// The layers hold the same tensors: each gets other values, none is replaced.
void RetinaNet::to(c10::Device device) {
  const at::NoGradGuard no_grad;
  for (const ModelTensor& item : tensors_) item.tensor.set_data(item.tensor.to(device));
}

void RetinaNet::to(c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  for (const ModelTensor& item : tensors_) {
    if (item.tensor.is_floating_point()) item.tensor.set_data(item.tensor.to(type));
  }
}

}  // namespace retina
