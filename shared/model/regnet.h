// RegNetX (Radosavovic et al. 2020) without its last layer, in torchvision's names: stem.0, stem.1,
// trunk_output.block1.block1-0.proj.0 ... trunk_output.block4.block4-11.f.c.1.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "shared/model/body.h"

namespace retina {

// A block of 1x1 + grouped 3x3 + 1x1 of one width, with a projection if shapes change.
class RegNetBlock {
 public:
  struct Shape {
    int in_channels = 0;
    int out_channels = 0;
    int stride = 1;
    int groups = 1;
  };
  RegNetBlock(const ModelScope& scope, const Shape& shape, const ModelConfig& config);
  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const;

 private:
  std::optional<ConvNorm> project_;  // of the shortcut, if shapes change
  std::vector<ConvNorm> convs_;
};

class RegNet : public Body {
 public:
  RegNet(const ModelScope& scope, const ModelConfig& config);
  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override;

 private:
  ConvNorm stem_;
  std::array<std::vector<RegNetBlock>, 4> stages_;
};

}  // namespace retina
