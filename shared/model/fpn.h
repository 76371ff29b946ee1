// Feature pyramid network (Lin et al. 2017, figure 3) over C3..C5 with RetinaNet's extra levels P6
// and P7: inner_blocks are the 1x1 laterals, layer_blocks the 3x3 outputs, extra_blocks p6 and p7.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"
#include "shared/model/layers.h"

namespace retina {

class Fpn {
 public:
  Fpn(const ModelScope& scope, const ModelConfig& config);
  // Computes C3..C5 -> P3..P7, each [N, fpn_channels, h, w]. The coarser map is upsampled (nearest)
  // to the exact size of the lateral it joins. P6 = conv(P5 or C5), P7 = conv(relu(P6)), stride 2.
  std::array<at::Tensor, kLevelCount> forward(const std::array<at::Tensor, 3>& features) const;

 private:
  bool p6_from_c5_;
  std::vector<Conv> inner_, layer_;  // C3, C4, C5
  std::optional<Conv> p6_, p7_;
};

}  // namespace retina
