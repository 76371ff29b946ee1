// The backbone: ResNet v1.5 (He et al. 2016, table 1; stride in the 3x3 convolution) without its
// classifier, in torchvision's names: conv1, bn1, layer1.0.conv1 ... layer4.2.bn3.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <array>
#include <string>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/norm.h"

namespace retina {

// The depths of one member of the family.
struct ResNetShape {
  std::array<int, 4> blocks = {};  // of layer1 .. layer4
  bool bottleneck = false;         // three convolutions (50 and deeper) or two
  int expansion() const { return bottleneck ? 4 : 1; }
};

// All names that ResNetShape knows.
const std::vector<std::string>& backbone_names();
// Throws Error{kUsage} for an unknown name.
ResNetShape resnet_shape(const std::string& backbone);
// Channels of C3, C4, C5.
std::array<int, 3> resnet_channels(const std::string& backbone);

// A residual block: 3x3 + 3x3, or 1x1 + 3x3 + 1x1, with a projection where shapes change.
class ResidualBlockImpl : public torch::nn::Cloneable<ResidualBlockImpl> {
 public:
  struct Shape {
    int in_channels = 0;
    int mid_channels = 0;
    int stride = 1;
    bool bottleneck = false;
  };
  ResidualBlockImpl(const Shape& shape, const ModelConfig& config);
  void reset() override;
  at::Tensor forward(const at::Tensor& input);

 private:
  Shape shape_;
  ModelConfig config_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<Norm2d> norms_;
  torch::nn::Conv2d project_{nullptr};
  Norm2d project_norm_{nullptr};
};
TORCH_MODULE(ResidualBlock);

class ResNetImpl : public torch::nn::Cloneable<ResNetImpl> {
 public:
  explicit ResNetImpl(const ModelConfig& config);
  void reset() override;
  // images [N, 3, H, W] -> C3 [N, c3, H/8, W/8], C4 [N, c4, H/16, W/16], C5 [N, c5, H/32, W/32],
  // sizes rounded up.
  std::array<at::Tensor, 3> forward(const at::Tensor& images);

 private:
  ModelConfig config_;
  torch::nn::Conv2d conv1_{nullptr};
  Norm2d bn1_{nullptr};
  std::vector<std::vector<ResidualBlock>> layers_;
};
TORCH_MODULE(ResNet);

}  // namespace retina
