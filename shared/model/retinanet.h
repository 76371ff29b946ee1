// RetinaNet (Lin et al. 2017): backbone + feature pyramid + two heads, under torchvision's
// parameter names (tensor_names.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "shared/model/body.h"
#include "shared/model/fpn.h"
#include "shared/model/heads.h"
#include "shared/model/network.h"

namespace retina {

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
