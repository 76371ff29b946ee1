// The depths and widths of the networks, what the ONNX graph shares with LibTorch's layers. No
// LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace retina {

// Of the ResNet family (He et al. 2016, table 1).
struct ResNetShape {
  std::array<int, 4> blocks = {};  // of layer1 .. layer4
  bool bottleneck = false;         // three convolutions a block (50 and deeper), or two
  int expansion() const { return bottleneck ? 4 : 1; }
};

// All names that resnet_shape knows: resnet18 ... resnet152.
const std::vector<std::string>& backbone_names();
// The name must be one of backbone_names() (ModelConfig::validate checks).
ResNetShape resnet_shape(const std::string& backbone);

// Channels of C3, C4, C5.
std::array<int, 3> resnet_channels(const std::string& backbone);

// RetinaNet's pyramid and its two heads: what ModelConfig's fpn_channels and head_convs may be.
constexpr int kLeastPyramidChannels = 64, kMostPyramidChannels = 256;
constexpr int kMostHeadConvs = 4;
constexpr int kHeadGroups = 32;  // of GroupNorm (Wu & He 2018)
constexpr bool is_pyramid_width(std::int64_t channels) {
  return channels >= kLeastPyramidChannels && channels <= kMostPyramidChannels &&
         channels % kHeadGroups == 0;
}

// The classifier that is not a ResNet (classifier.h).
inline const std::string kCifarCnn = "cifar-cnn";
// The backbones of classifiers: all ResNets, and cifar-cnn.
const std::vector<std::string>& classifier_names();

// Of its four 3x3 convolutions: the first and third are padded, a 2x2 pool follows the others.
constexpr std::array<int, 4> kCifarWidths = {32, 32, 64, 64};
constexpr int kCifarHidden = 512;  // between the two dense layers

// Numbers of the image after both pools: each unpadded convolution takes a pixel from each edge.
constexpr std::int64_t cifar_features(int side_px) {
  const int pooled = ((side_px - 2) / 2 - 2) / 2;
  return std::int64_t{kCifarWidths.back()} * pooled * pooled;
}

}  // namespace retina
