#include "convert/import/architecture.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "shared/anchor/anchor.h"
#include "shared/base/error.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

const std::string kClassWeight = kClassLayerPrefix + "weight";
constexpr std::string_view kStem = "conv1.weight";
constexpr const char* kHint =
    "torchvision's RetinaNets (resnet18 to resnet152, v1 and v2) and ResNet classifiers are "
    "accepted";

using Shape = std::vector<std::int64_t>;

const ForeignTensor* find(const std::vector<ForeignTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// The prefix of the ResNet's names; nullopt without a ResNet's first convolution.
std::optional<std::string> resnet_prefix(const std::vector<ForeignTensor>& tensors) {
  for (const ForeignTensor& tensor : tensors) {
    if (!tensor.name.ends_with(kStem) || tensor.shape != Shape{64, 3, 7, 7}) continue;
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - kStem.size());
    if (prefix.empty() || prefix.ends_with('.')) return prefix;
  }
  return std::nullopt;
}

// "NAME.weight" under the older layout `before` + rest becomes `after` + rest.
void replace_prefix(std::string& name, const std::string& before, const std::string& after) {
  if (name.starts_with(before)) name = after + name.substr(before.size());
}

// torchvision/models/detection/retinanet.py, _v1_to_v2_weights, and ops/feature_pyramid_network.py,
// _load_from_state_dict: convolutions got a place inside a block.
void rename_older_layers(std::string& name) {
  for (const char* kind : {"weight", "bias"}) {
    for (const char* head : {"classification", "regression"}) {
      const std::string tower = cat("head.", head, "_head.conv.");
      for (int layer = 0; layer < kMostHeadConvs; ++layer) {
        if (name == cat(tower, 2 * layer, ".", kind)) {
          name = cat(tower, layer, ".0.", kind);
          return;
        }
      }
    }
    for (const char* blocks : {"inner", "layer"}) {
      for (int level = 0; level < 3; ++level) {
        const std::string block = cat(kFpnPrefix, blocks, "_blocks.", level, ".");
        if (name == block + kind) {
          name = cat(block, "0.", kind);
          return;
        }
      }
    }
  }
}

struct ResNetPlace {
  std::string prefix;  // of the ResNet's names
  const std::string& subject;
};

std::string backbone_of(const std::vector<ForeignTensor>& tensors, const ResNetPlace& place) {
  const auto has = [&](const std::string& name) {
    return find(tensors, place.prefix + name) != nullptr;
  };
  ResNetShape shape{.blocks = {}, .bottleneck = has("layer1.0.conv3.weight")};
  for (std::size_t layer = 0; layer < shape.blocks.size(); ++layer) {
    int& count = shape.blocks[layer];
    while (has(cat("layer", layer + 1, ".", count, ".conv1.weight"))) ++count;
  }
  for (const std::string& name : backbone_names()) {
    const ResNetShape known = resnet_shape(name);
    if (known.blocks == shape.blocks && known.bottleneck == shape.bottleneck) return name;
  }
  throw Error(
      ErrorKind::kData,
      cat(place.subject, ": its backbone is not a ResNet of 18, 34, 50, 101 or 152 layers (its ",
          "stages have ", shape.blocks[0], ", ", shape.blocks[1], ", ", shape.blocks[2], " and ",
          shape.blocks[3], " blocks)"),
      kHint);
}

bool is_last_layer(const std::string& name) {
  return name == kClassifierPrefix + "weight" || name == kClassifierPrefix + "bias";
}

// All tensors must be a ResNet classifier's; what comes before their names goes.
void strip_prefix(std::vector<ForeignTensor>& tensors, const ResNetPlace& place) {
  const auto& [prefix, subject] = place;
  for (ForeignTensor& tensor : tensors) {
    const std::string rest =
        tensor.name.starts_with(prefix) ? tensor.name.substr(prefix.size()) : std::string();
    const bool resnet = rest.starts_with("conv1.") || rest.starts_with("bn1.") ||
                        rest.starts_with("layer1.") || rest.starts_with("layer2.") ||
                        rest.starts_with("layer3.") || rest.starts_with("layer4.");
    if (!resnet && !is_last_layer(rest)) {
      throw Error(
          ErrorKind::kData,
          cat(subject, ": neither a RetinaNet nor a ResNet (it has a tensor ", tensor.name, ")"),
          kHint);
    }
    tensor.name = rest;
  }
}

// A backbone's tensors must all be the ResNet's; the classifier's last layer is dropped.
void keep_backbone(std::vector<ForeignTensor>& tensors, const ResNetPlace& place) {
  strip_prefix(tensors, place);
  std::erase_if(tensors, [](const ForeignTensor& tensor) { return is_last_layer(tensor.name); });
  for (ForeignTensor& tensor : tensors) tensor.name = kBodyPrefix + tensor.name;
}

std::int64_t class_rows(const ForeignTensor& layer, const std::string& subject) {
  if (layer.shape.size() != 4 || layer.shape[0] == 0 || layer.shape[0] % kAnchorsPerCell != 0) {
    throw Error(
        ErrorKind::kData,
        cat(subject, ": tensor ", kClassWeight, " has ", layer.shape.empty() ? 0 : layer.shape[0],
            " rows (want ", kAnchorsPerCell, " for each class: 3 sizes and 3 shapes of anchors)"),
        kHint);
  }
  return layer.shape[0] / kAnchorsPerCell;
}

// torch.optim.swa_utils.AveragedModel counts its updates beside the weights.
void drop_average_counter(std::vector<ForeignTensor>& tensors) {
  std::erase_if(tensors, [](const ForeignTensor& tensor) { return tensor.name == "n_averaged"; });
}

std::string required_prefix(const std::vector<ForeignTensor>& tensors, const std::string& subject) {
  const std::optional<std::string> prefix = resnet_prefix(tensors);
  if (prefix) return *prefix;
  throw Error(ErrorKind::kData,
              cat(subject, ": holds no ResNet (no tensor conv1.weight of 64x3x7x7 among its ",
                  tensors.size(), ")"),
              kHint);
}

}  // namespace

Architecture recognise_classifier(std::vector<ForeignTensor>& tensors, const std::string& subject) {
  drop_average_counter(tensors);
  const std::string prefix = required_prefix(tensors, subject);
  if (prefix.ends_with(kBodyPrefix)) {
    throw Error(ErrorKind::kData, cat(subject, ": is a detector, not a classifier"),
                "leave out --task classify");
  }
  strip_prefix(tensors, {.prefix = prefix, .subject = subject});
  const ForeignTensor* layer = find(tensors, kClassifierPrefix + "weight");
  if (layer == nullptr || layer->shape.size() != 2 || layer->shape[0] == 0) {
    throw Error(ErrorKind::kData,
                cat(subject, layer == nullptr ? ": has no last layer (fc.weight): a bare backbone"
                                              : ": its fc.weight is not a layer (want K x C)"),
                "leave out --task classify to import the backbone");
  }
  Architecture result;
  result.backbone = backbone_of(tensors, {.prefix = "", .subject = subject});
  result.class_rows = layer->shape[0];
  return result;
}

Architecture recognise(std::vector<ForeignTensor>& tensors, const std::string& subject) {
  drop_average_counter(tensors);
  const std::string prefix = required_prefix(tensors, subject);
  Architecture result;
  const ForeignTensor* class_layer = nullptr;
  if (prefix.ends_with(kBodyPrefix)) {
    const std::string wrapper = prefix.substr(0, prefix.size() - kBodyPrefix.size());
    for (ForeignTensor& tensor : tensors) {
      replace_prefix(tensor.name, wrapper, "");
      rename_older_layers(tensor.name);
    }
    class_layer = find(tensors, kClassWeight);
  }
  if (class_layer == nullptr) {
    result.backbone_only = true;
    keep_backbone(tensors, {.prefix = prefix.ends_with(kBodyPrefix) ? kBodyPrefix : prefix,
                            .subject = subject});
  } else {
    result.class_rows = class_rows(*class_layer, subject);
    result.group_norm = find(tensors, kClassHeadPrefix + "conv.0.1.weight") != nullptr;
    const auto has_conv = [&](int number) {
      return find(tensors, cat(kClassHeadPrefix, "conv.", number, ".0.weight")) != nullptr;
    };
    while (result.head_convs > 1 && !has_conv(result.head_convs - 1)) --result.head_convs;
    const ForeignTensor* p6 = find(tensors, kFpnPrefix + "extra_blocks.p6.weight");
    if (p6 != nullptr && p6->shape.size() == 4 && is_pyramid_width(p6->shape[0])) {
      result.fpn_channels = static_cast<int>(p6->shape[0]);
      result.p6_from_c5 = p6->shape[1] != p6->shape[0];
    }
  }
  result.backbone = backbone_of(tensors, {.prefix = kBodyPrefix, .subject = subject});
  result.batch_norm = find(tensors, cat(kBodyPrefix, "bn1.num_batches_tracked")) != nullptr;
  return result;
}

}  // namespace retina
