// The depths and widths of the ResNet family (He et al. 2016, table 1). No LibTorch.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace retina {

struct ResNetShape {
  std::array<int, 4> blocks = {};  // of layer1 .. layer4
  bool bottleneck = false;         // three convolutions a block (50 and deeper), or two
  int expansion() const { return bottleneck ? 4 : 1; }
};

// All names that resnet_shape knows: resnet18 ... resnet152.
const std::vector<std::string>& backbone_names();
// A classifier that is not a ResNet (classifier.h).
inline const std::string kCifarCnn = "cifar-cnn";
// The backbones of classifiers: those, and cifar-cnn.
const std::vector<std::string>& classifier_names();

// The name must be one of backbone_names() (ModelConfig::validate checks).
ResNetShape resnet_shape(const std::string& backbone);

// Channels of C3, C4, C5.
std::array<int, 3> resnet_channels(const std::string& backbone);

}  // namespace retina
