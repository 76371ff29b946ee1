// The depths and widths of the networks, shared by the ONNX graph and LibTorch's layers. No
// LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace retina {

// --- Backbones: torchvision's, under its names ---------------------------------------------------

// Family of a backbone, by its layers: resnet.cpp (two), mobilenet.cpp.
enum class BackboneFamily { kResNet, kRegNet, kMobileNetV3 };

// ResNet (He et al. 2016, table 1), ResNeXt (Xie et al. 2017, table 1: more groups) and Wide ResNet
// (Zagoruyko & Komodakis 2016: wider 3x3 convolutions).
struct ResNetShape {
  std::array<int, 4> blocks = {};  // blocks of layer1 .. layer4
  bool bottleneck = false;         // three convolutions a block (50 and deeper), or two
  int groups = 1;                  // groups of a bottleneck's 3x3 convolution
  int width_per_group = 64;        // their width in layer1; doubles from stage to stage

  int mid_channels(std::size_t stage) const { return (width_per_group << stage) * groups; }
  int out_channels(std::size_t stage) const { return (bottleneck ? 256 : 64) << stage; }
};

// RegNetX (Radosavovic et al. 2020): bottlenecks that are not narrower in the middle.
struct RegNetShape {
  std::array<int, 4> blocks = {};  // blocks of block1 .. block4
  std::array<int, 4> widths = {};  // their channels
  int group_width = 1;             // width of a 3x3 convolution's groups; the whole if less

  int groups(std::size_t stage) const;
};
constexpr int kRegNetStemChannels = 32;

// A block of MobileNetV3 (Howard et al. 2019, figure 4): 1x1 to `expanded` channels (left out if
// the input has as many), a convolution of each channel alone, squeeze and excitation if it
// `excites`, 1x1 to `out`; the input is added if the shapes agree.
struct InvertedResidualShape {
  int in, kernel, expanded, out;
  bool excites, hardswish;  // else ReLU
  int stride;

  bool expands() const { return expanded != in; }
  bool adds_input() const { return stride == 1 && in == out; }
  int squeezed() const;  // channels between the layers of squeeze and excitation
};
// MobileNetV3-Large (table 1). In torchvision's numbering these are features.1 to .15, between the
// stem, features.0, and the last convolution, features.16.
constexpr std::array<InvertedResidualShape, 15> kMobileNetV3Large = {{
    {16, 3, 16, 16, false, false, 1},
    {16, 3, 64, 24, false, false, 2},
    {24, 3, 72, 24, false, false, 1},
    {24, 5, 72, 40, true, false, 2},
    {40, 5, 120, 40, true, false, 1},
    {40, 5, 120, 40, true, false, 1},
    {40, 3, 240, 80, false, true, 2},
    {80, 3, 200, 80, false, true, 1},
    {80, 3, 184, 80, false, true, 1},
    {80, 3, 184, 80, false, true, 1},
    {80, 3, 480, 112, true, true, 1},
    {112, 3, 672, 112, true, true, 1},
    {112, 5, 672, 160, true, true, 2},
    {160, 5, 960, 160, true, true, 1},
    {160, 5, 960, 160, true, true, 1},
}};
constexpr int kMobileNetV3StemChannels = 16;
constexpr int kMobileNetV3LastChannels = 960;  // channels of features.16
constexpr int kMobileNetV3Hidden = 1280;       // between a classifier's two dense layers
// Blocks whose outputs are C3 and C4: the last of stride 8 and of stride 16, from 0 in the table.
// C5 is the output of features.16.
constexpr std::size_t kMobileNetV3C3 = 5, kMobileNetV3C4 = 11;

// Returns all names of backbones; the functions below accept only these (ModelConfig::validate
// checks).
const std::vector<std::string>& backbone_names();
BackboneFamily family_of(const std::string& backbone);
// Return the shape of a backbone of that family.
ResNetShape resnet_shape(const std::string& backbone);
RegNetShape regnet_shape(const std::string& backbone);

// Returns the channels of C3, C4, C5.
std::array<int, 3> feature_channels(const std::string& backbone);

// Returns the five stages of a backbone, of strides 2, 4, 8, 16 and 32, as prefixes of tensors'
// names behind the backbone's prefix. ResNet: conv1 (its norm, bn1, belongs to no stage, as in
// torchvision), layer1 .. layer4. RegNet: stem, block1 .. block4. MobileNetV3: features 0-1, 2-3,
// 4-6, 7-12, 13-16.
std::array<std::vector<std::string>, 5> backbone_stages(const std::string& backbone);

// Prefixes of the tensors' names in a classifier: those of its backbone, and of the layer with a
// row for each class.
struct ClassifierPrefixes {
  std::string body, class_layer;
};
ClassifierPrefixes classifier_prefixes(const std::string& backbone);

// --- RetinaNet's pyramid and its two heads -------------------------------------------------------

// Allowed values of ModelConfig's fpn_channels and head_convs.
constexpr int kLeastPyramidChannels = 64, kMostPyramidChannels = 256;
constexpr int kMostHeadConvs = 4;
constexpr int kHeadGroups = 32;  // GroupNorm's groups (Wu & He 2018)
constexpr bool is_pyramid_width(std::int64_t channels) {
  return channels >= kLeastPyramidChannels && channels <= kMostPyramidChannels &&
         channels % kHeadGroups == 0;
}

// --- Keras' small classifier ---------------------------------------------------------------------

// Name of the classifier without a backbone (classifier.h).
inline const std::string kCifarCnn = "cifar-cnn";
// Returns the networks of classifiers: all backbones, and cifar-cnn.
const std::vector<std::string>& classifier_names();

// Widths of its four 3x3 convolutions: the first and third are padded, a 2x2 pool follows the
// others.
constexpr std::array<int, 4> kCifarWidths = {32, 32, 64, 64};
constexpr int kCifarHidden = 512;  // between the two dense layers

// Returns the size of an image's features after both pools: each unpadded convolution takes a pixel
// from each edge.
constexpr std::int64_t cifar_features(int side_px) {
  const int pooled = ((side_px - 2) / 2 - 2) / 2;
  return std::int64_t{kCifarWidths.back()} * pooled * pooled;
}

}  // namespace retina
