// The two subnets of RetinaNet (Lin et al. 2017, figure 3 c and d): four 3x3 convolutions of 256
// channels and an output convolution, the same weights on every level.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <array>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"

namespace retina {

constexpr int kHeadDepth = 4;
constexpr int kHeadGroups = 32;             // of GroupNorm (Wu & He 2018)
constexpr double kPriorProbability = 0.01;  // of foreground at the start (Lin et al. 2017, 4.1)

class HeadImpl : public torch::nn::Module {
 public:
  // `values_per_anchor` is K for classes, 4 for boxes; `output_name` cls_logits or bbox_reg.
  HeadImpl(int values_per_anchor, const std::string& output_name, const ModelConfig& config);
  // P3..P7, each [N, 256, h, w] -> [N, A, values_per_anchor], anchors in the order of grid_anchors.
  at::Tensor forward(const std::array<at::Tensor, kLevelCount>& pyramid);

 private:
  int values_per_anchor_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::GroupNorm> norms_;  // empty without head norm
  torch::nn::Conv2d output_{nullptr};
};
TORCH_MODULE(Head);

}  // namespace retina
