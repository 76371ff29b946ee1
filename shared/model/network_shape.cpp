#include "shared/model/network_shape.h"

#include <algorithm>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

using ResNets = std::vector<std::pair<std::string, ResNetShape>>;
using RegNets = std::vector<std::pair<std::string, RegNetShape>>;

const std::string kMobileNetV3 = "mobilenet_v3_large";

const ResNets& resnets() {
  constexpr std::array<int, 4> k50 = {3, 4, 6, 3}, k101 = {3, 4, 23, 3}, k152 = {3, 8, 36, 3};
  static const ResNets kShapes = {
      {"resnet18", {.blocks = {2, 2, 2, 2}}},
      {"resnet34", {.blocks = k50}},
      {"resnet50", {.blocks = k50, .bottleneck = true}},
      {"resnet101", {.blocks = k101, .bottleneck = true}},
      {"resnet152", {.blocks = k152, .bottleneck = true}},
      {"resnext50_32x4d", {.blocks = k50, .bottleneck = true, .groups = 32, .width_per_group = 4}},
      {"resnext101_32x8d",
       {.blocks = k101, .bottleneck = true, .groups = 32, .width_per_group = 8}},
      {"resnext101_64x4d",
       {.blocks = k101, .bottleneck = true, .groups = 64, .width_per_group = 4}},
      {"wide_resnet50_2", {.blocks = k50, .bottleneck = true, .width_per_group = 128}},
      {"wide_resnet101_2", {.blocks = k101, .bottleneck = true, .width_per_group = 128}}};
  return kShapes;
}

// Returns the shapes that torchvision computes from the paper's parameters
// (BlockParams.from_init_params).
const RegNets& regnets() {
  static const RegNets kShapes = {{"regnet_x_400mf", {{1, 2, 7, 12}, {32, 64, 160, 400}, 16}},
                                  {"regnet_x_800mf", {{1, 3, 7, 5}, {64, 128, 288, 672}, 16}},
                                  {"regnet_x_1_6gf", {{2, 4, 10, 2}, {72, 168, 408, 912}, 24}},
                                  {"regnet_x_3_2gf", {{2, 6, 15, 2}, {96, 192, 432, 1008}, 48}},
                                  {"regnet_x_8gf", {{2, 5, 15, 1}, {80, 240, 720, 1920}, 120}}};
  return kShapes;
}

// Returns the shape of this name; null if it is another family's.
template <class Shape>
const Shape* find(const std::vector<std::pair<std::string, Shape>>& shapes,
                  const std::string& name) {
  const auto found = std::find_if(shapes.begin(), shapes.end(),
                                  [&](const auto& one) { return one.first == name; });
  return found == shapes.end() ? nullptr : &found->second;
}

}  // namespace

int RegNetShape::groups(std::size_t stage) const {
  return widths[stage] / std::min(group_width, widths[stage]);
}

// Returns a quarter of the expanded channels, made a multiple of 8 that is not more than a tenth
// less (torchvision's _make_divisible).
int InvertedResidualShape::squeezed() const {
  const int wanted = expanded / 4;
  const int rounded = std::max(8, (wanted + 4) / 8 * 8);
  return 10 * rounded < 9 * wanted ? rounded + 8 : rounded;
}

const std::vector<std::string>& backbone_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, shape] : resnets()) all.push_back(name);
    for (const auto& [name, shape] : regnets()) all.push_back(name);
    all.push_back(kMobileNetV3);
    return all;
  }();
  return names;
}

const std::vector<std::string>& classifier_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = backbone_names();
    all.push_back(kCifarCnn);
    return all;
  }();
  return names;
}

BackboneFamily family_of(const std::string& backbone) {
  if (find(resnets(), backbone) != nullptr) return BackboneFamily::kResNet;
  if (find(regnets(), backbone) != nullptr) return BackboneFamily::kRegNet;
  RETINA_CHECK(backbone == kMobileNetV3, backbone);
  return BackboneFamily::kMobileNetV3;
}

ResNetShape resnet_shape(const std::string& backbone) {
  const ResNetShape* const shape = find(resnets(), backbone);
  RETINA_CHECK(shape != nullptr, backbone);
  return *shape;
}

RegNetShape regnet_shape(const std::string& backbone) {
  const RegNetShape* const shape = find(regnets(), backbone);
  RETINA_CHECK(shape != nullptr, backbone);
  return *shape;
}

std::array<int, 3> feature_channels(const std::string& backbone) {
  switch (family_of(backbone)) {
    case BackboneFamily::kResNet: {
      const ResNetShape shape = resnet_shape(backbone);
      return {shape.out_channels(1), shape.out_channels(2), shape.out_channels(3)};
    }
    case BackboneFamily::kRegNet: {
      const std::array<int, 4> widths = regnet_shape(backbone).widths;
      return {widths[1], widths[2], widths[3]};
    }
    case BackboneFamily::kMobileNetV3:
      break;
  }
  return {kMobileNetV3Large[kMobileNetV3C3].out, kMobileNetV3Large[kMobileNetV3C4].out,
          kMobileNetV3LastChannels};
}

std::array<std::vector<std::string>, 5> backbone_stages(const std::string& backbone) {
  switch (family_of(backbone)) {
    case BackboneFamily::kResNet:
      return {{{"conv1."}, {"layer1."}, {"layer2."}, {"layer3."}, {"layer4."}}};
    case BackboneFamily::kRegNet: {
      std::array<std::vector<std::string>, 5> stages = {{{"stem."}}};
      for (std::size_t i = 1; i < stages.size(); ++i)
        stages[i] = {cat("trunk_output.block", i, ".")};
      return stages;
    }
    case BackboneFamily::kMobileNetV3:
      break;
  }
  // In MobileNetV3, features are halved once more by the stem and by each block of stride 2.
  std::array<std::vector<std::string>, 5> stages;
  std::size_t stage = 0;
  stages[stage].push_back("0.");
  for (std::size_t i = 0; i < kMobileNetV3Large.size(); ++i) {
    if (kMobileNetV3Large[i].stride == 2) ++stage;
    stages.at(stage).push_back(cat(i + 1, "."));
  }
  stages.at(stage).push_back(cat(kMobileNetV3Large.size() + 1, "."));
  return stages;
}

ClassifierPrefixes classifier_prefixes(const std::string& backbone) {
  if (family_of(backbone) == BackboneFamily::kMobileNetV3) {
    return {.body = "features.", .class_layer = "classifier.3."};
  }
  return {.body = "", .class_layer = kClassifierPrefix};
}

}  // namespace retina
