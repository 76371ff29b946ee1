// Feature pyramid network (Lin et al. 2017, figure 3) over C3..C5 with RetinaNet's extra levels P6
// and P7: inner_blocks are the 1x1 laterals, layer_blocks the 3x3 outputs, extra_blocks p6 and p7.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <array>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"

namespace retina {

constexpr int kPyramidChannels = 256;

class FpnImpl : public torch::nn::Module {
 public:
  explicit FpnImpl(const ModelConfig& config);
  // C3..C5 -> P3..P7, each [N, 256, h, w]. The coarser map is upsampled (nearest) to the exact size
  // of the lateral it joins. P6 = conv(P5 or C5), P7 = conv(relu(P6)), stride 2.
  std::array<at::Tensor, kLevelCount> forward(const std::array<at::Tensor, 3>& features);

 private:
  bool p6_from_c5_;
  std::vector<torch::nn::Conv2d> inner_, layer_;  // C3, C4, C5
  torch::nn::Conv2d p6_{nullptr}, p7_{nullptr};
};
TORCH_MODULE(Fpn);

}  // namespace retina
