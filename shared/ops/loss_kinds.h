// Kinds of losses (head_losses.h), and their parameters. Read by nvcc too: C++17, no ATen.
#pragma once

namespace retina {

enum class ClassLossKind { kFocal, kQualityFocal, kVarifocal };

enum class BoxLossKind { kL1, kSmoothL1, kGiou, kCiou };

struct BoxLossOptions {
  BoxLossKind kind = BoxLossKind::kL1;
  // Smooth L1: errors below it count quadratically (keras-retinanet: sigma 3, so 1 / 9).
  double smooth_l1_beta = 1.0 / 9;
  // L1 and smooth L1: errors are divided by it (keras-retinanet's targets: 0.2).
  double target_std = 1;
};

}  // namespace retina
