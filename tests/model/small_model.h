// The smallest real model, for tests.
#pragma once

#include "shared/model/retinanet.h"

namespace retina {

inline ModelConfig small_config() {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = 2;
  return config;
}

inline ModelConfig small_frozen_config() {
  ModelConfig config = small_config();
  config.norm = Norm::kFrozen;
  config.head_norm = HeadNorm::kNone;
  config.p6_from_c5 = false;
  return config;
}

}  // namespace retina
