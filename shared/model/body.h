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

// Make one family's body, for make_body():

// ResNet v1.5 (He et al. 2016, table 1; stride in the 3x3 convolution), ResNeXt and Wide ResNet
// (network_shape.h): conv1, bn1, layer1.0.conv1 ... layer4.2.bn3.
std::unique_ptr<Body> make_resnet(const ModelScope& scope, const ModelConfig& config);
// RegNetX (Radosavovic et al. 2020): stem.0, stem.1, trunk_output.block1.block1-0.proj.0 ...
// trunk_output.block4.block4-11.f.c.1.
std::unique_ptr<Body> make_regnet(const ModelScope& scope, const ModelConfig& config);
// MobileNetV3-Large (Howard et al. 2019, table 1), behind "features.": 0.0, 0.1, 1.block.0.0 ...
// 15.block.3.1, 16.0, 16.1. A detector's have no "features.", as torchvision's.
std::unique_ptr<Body> make_mobilenet(const ModelScope& scope, const ModelConfig& config);

}  // namespace retina
