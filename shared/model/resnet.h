// ResNet v1.5 (He et al. 2016, table 1; stride in the 3x3 convolution), ResNeXt and Wide ResNet
// (network_shape.h) without their last layer, in torchvision's names: conv1, bn1, layer1.0.conv1
// ... layer4.2.bn3.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "shared/model/body.h"
#include "shared/model/layers.h"
#include "shared/model/norm.h"

namespace retina {

// A residual block: 3x3 + 3x3, or 1x1 + 3x3 + 1x1, with a projection if shapes change.
class ResidualBlock {
 public:
  struct Shape {
    int in_channels = 0;
    int mid_channels = 0;
    int out_channels = 0;
    int stride = 1;
    int groups = 1;  // of the 3x3 convolution of a bottleneck
    bool bottleneck = false;
  };
  ResidualBlock(const ModelScope& scope, const Shape& shape, const ModelConfig& config);
  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const;

 private:
  std::vector<Conv> convs_;
  std::vector<Norm2d> norms_;
  std::optional<Conv> project_;  // of the shortcut, if shapes change
  std::optional<Norm2d> project_norm_;
};

class ResNet : public Body {
 public:
  ResNet(const ModelScope& scope, const ModelConfig& config);
  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override;

 private:
  Conv conv1_;
  Norm2d bn1_;
  std::array<std::vector<ResidualBlock>, 4> layers_;
};

}  // namespace retina
