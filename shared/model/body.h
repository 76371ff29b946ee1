// The body of a network: a backbone without its last layer. config.backbone selects it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>

#include "shared/model/config.h"
#include "shared/model/layers.h"
#include "shared/model/norm.h"

namespace retina {

class Body {
 public:
  virtual ~Body() = default;
  // Computes images [N, 3, H, W] -> C3 [N, c3, H/8, W/8], C4 [N, c4, H/16, W/16], C5 [N, c5, H/32,
  // W/32], sizes rounded up; c3 .. c5 are feature_channels (network_shape.h).
  virtual std::array<at::Tensor, 3> forward(const at::Tensor& images,
                                            const NormMode& mode) const = 0;
};

// Makes a body with torchvision's names, behind the scope's prefix. Parity: tests/parity.
std::unique_ptr<Body> make_body(const ModelScope& scope, const ModelConfig& config);

}  // namespace retina
