// MobileNetV3-Large (Howard et al. 2019, table 1) without its last layers, in torchvision's names
// behind "features.": 0.0, 0.1, 1.block.0.0 ... 15.block.3.1, 16.0, 16.1. A detector's have no
// "features.", as torchvision's.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "shared/model/body.h"
#include "shared/model/network_shape.h"

namespace retina {

// Squeeze and excitation (Hu et al. 2018) as in MobileNetV3: multiplies each channel by a number in
// [0, 1] that two dense layers compute from the channels' means.
class SqueezeExcitation {
 public:
  SqueezeExcitation(const ModelScope& scope, int channels, int squeezed);
  at::Tensor forward(const at::Tensor& input) const;

 private:
  Conv fc1_, fc2_;  // 1x1
};

class InvertedResidual {
 public:
  InvertedResidual(const ModelScope& scope, const InvertedResidualShape& shape,
                   const ModelConfig& config);
  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const;

 private:
  InvertedResidualShape shape_;
  std::optional<ConvNorm> expand_, depthwise_;
  std::optional<SqueezeExcitation> excitation_;
  std::optional<ConvNorm> project_;
};

class MobileNetV3 : public Body {
 public:
  MobileNetV3(const ModelScope& scope, const ModelConfig& config);
  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override;

 private:
  ConvNorm stem_;
  std::vector<InvertedResidual> blocks_;
  std::optional<ConvNorm> last_;
};

}  // namespace retina
