// RetinaNet (Lin et al. 2017): backbone + feature pyramid + two heads, under torchvision's
// parameter names (tensor_names.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/body.h"
#include "shared/model/heads.h"
#include "shared/model/network.h"

namespace retina {

// Feature pyramid network (Lin et al. 2017, figure 3) over C3..C5 with RetinaNet's extra levels P6
// and P7: inner_blocks are the 1x1 laterals, layer_blocks the 3x3 outputs, extra_blocks p6 and p7.
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

class RetinaNet : public Network {
 public:
  explicit RetinaNet(const ModelConfig& config);

  // Computes images [N, 3, H, W] f32, normalised, zero-padded to a multiple of 32 -> all levels'
  // outputs. In training mode the running statistics of batch norm move. Parity with torchvision:
  // tests/parity.
  HeadOutputs forward(const at::Tensor& images) const;

  // Returns torchvision's initial values: kaiming normal (fan out) in the backbone, kaiming uniform
  // in the pyramid, normal(0, 0.01) in the heads, prior 0.01 in the class bias.
  StartValue start_value(const std::string& name, const at::Tensor& like) const override;

 private:
  std::unique_ptr<Body> body_;
  Fpn fpn_;
  Head classification_, regression_;
};

}  // namespace retina
