#include "shared/model/network_shape.h"

#include <algorithm>
#include <cstddef>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::array<ResNetShape, 5> kShapes = {{{.blocks = {2, 2, 2, 2}, .bottleneck = false},
                                                 {.blocks = {3, 4, 6, 3}, .bottleneck = false},
                                                 {.blocks = {3, 4, 6, 3}, .bottleneck = true},
                                                 {.blocks = {3, 4, 23, 3}, .bottleneck = true},
                                                 {.blocks = {3, 8, 36, 3}, .bottleneck = true}}};

}  // namespace

const std::vector<std::string>& backbone_names() {
  static const std::vector<std::string> names = {"resnet18", "resnet34", "resnet50", "resnet101",
                                                 "resnet152"};
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

ResNetShape resnet_shape(const std::string& backbone) {
  const auto& names = backbone_names();
  const auto name = std::find(names.begin(), names.end(), backbone);
  RETINA_CHECK(name != names.end(), backbone);
  return kShapes.at(static_cast<std::size_t>(name - names.begin()));
}

std::array<int, 3> resnet_channels(const std::string& backbone) {
  const int expansion = resnet_shape(backbone).expansion();
  return {128 * expansion, 256 * expansion, 512 * expansion};
}

}  // namespace retina
