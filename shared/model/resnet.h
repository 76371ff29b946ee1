// ResNet v1.5 (He et al. 2016, table 1; stride in the 3x3 convolution) without its last layer, in
// torchvision's names: conv1, bn1, layer1.0.conv1 ... layer4.2.bn3.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/layers.h"
#include "shared/model/norm.h"

namespace retina {

// A residual block: 3x3 + 3x3, or 1x1 + 3x3 + 1x1, with a projection where shapes change.
class ResidualBlock {
 public:
  struct Shape {
    int in_channels = 0;
    int mid_channels = 0;
    int stride = 1;
    bool bottleneck = false;
  };
  ResidualBlock(const ModelScope& scope, const Shape& shape, const ModelConfig& config);
  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const;

 private:
  std::vector<Conv> convs_;
  std::vector<Norm2d> norms_;
  std::optional<Conv> project_;  // of the shortcut, where shapes change
  std::optional<Norm2d> project_norm_;
};

class ResNet {
 public:
  ResNet(const ModelScope& scope, const ModelConfig& config);
  // images [N, 3, H, W] -> C3 [N, c3, H/8, W/8], C4 [N, c4, H/16, W/16], C5 [N, c5, H/32, W/32],
  // sizes rounded up.
  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const;

 private:
  Conv conv1_;
  Norm2d bn1_;
  std::array<std::vector<ResidualBlock>, 4> layers_;
};

}  // namespace retina
