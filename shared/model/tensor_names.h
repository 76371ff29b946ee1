// The names of the networks' tensors: torchvision 0.26's. Part of the checkpoint format; never
// rename. No LibTorch.
#pragma once

#include <string>
#include <string_view>

namespace retina {

inline const std::string kBodyPrefix = "backbone.body.";
inline const std::string kFpnPrefix = "backbone.fpn.";
inline const std::string kClassHeadPrefix = "head.classification_head.";
inline const std::string kBoxHeadPrefix = "head.regression_head.";
// The output convolutions of the two heads.
inline const std::string kClassLayer = "cls_logits";
inline const std::string kBoxLayer = "bbox_reg";
// Prefix of the layer whose weight and bias have a row for each anchor shape and class,
// anchor-major.
inline const std::string kClassLayerPrefix = kClassHeadPrefix + kClassLayer + ".";

// Prefix of the last layer of a ResNet or RegNet that classifies, whose other tensors have no
// prefix: fc.weight [K, C], fc.bias [K]. MobileNetV3's: network_shape.h.
inline const std::string kClassifierPrefix = "fc.";

// Returns true for the count of batches that a trained batch norm has seen: nothing computes with
// it, so files without it are just as good.
inline bool is_batch_counter(std::string_view name) {
  return name.ends_with(".num_batches_tracked");
}

}  // namespace retina
