#include "shared/model/retinanet.h"

#include "shared/base/error.h"
#include "shared/model/layers.h"

namespace retina {
namespace {

// Checked before any member is built, so that a bad value is reported as the user's.
const ModelConfig& validated(const ModelConfig& config) {
  config.validate();
  return config;
}

}  // namespace

RetinaNetImpl::RetinaNetImpl(const ModelConfig& config) : config_(validated(config)) {
  Numbered backbone, head;
  body_ = backbone->register_module("body", ResNet(config_));
  fpn_ = backbone->register_module("fpn", Fpn(config_));
  classification_ = head->register_module("classification_head",
                                          Head(config_.class_count, "cls_logits", config_));
  regression_ = head->register_module("regression_head", Head(4, "bbox_reg", config_));
  register_module("backbone", backbone);
  register_module("head", head);
}

HeadOutputs RetinaNetImpl::forward(const at::Tensor& images) {
  RETINA_CHECK(images.dim() == 4 && images.size(1) == 3);
  RETINA_CHECK(images.size(2) % kPadMultiplePx == 0 && images.size(3) % kPadMultiplePx == 0,
               "images must be padded to a multiple of ", kPadMultiplePx, ", got ", images.size(2),
               " x ", images.size(3));
  const auto pyramid = fpn_->forward(body_->forward(images));
  return {.logits = classification_->forward(pyramid), .deltas = regression_->forward(pyramid)};
}

}  // namespace retina
