#include "convert/import/architecture.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "shared/anchor/anchor.h"
#include "shared/base/error.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

const std::string kClassWeight = kClassLayerPrefix + "weight";
constexpr const char* kHint =
    "torchvision's RetinaNets (v1 and v2) and its classifiers of retina-train's backbones are "
    "accepted";

using Shape = std::vector<std::int64_t>;

// The marks of a backbone family, by torchvision's names.
struct FamilyMarks {
  std::string stem;  // the first convolution's weight
  Shape stem_shape;
  std::vector<std::string> parts;  // beginnings of its tensors' names
};

const FamilyMarks& marks_of(BackboneFamily family) {
  static const FamilyMarks kResNet = {
      "conv1.weight",
      {64, 3, 7, 7},
      {"conv1.", "bn1.", "layer1.", "layer2.", "layer3.", "layer4."}};
  static const FamilyMarks kRegNet = {
      "stem.0.weight", {kRegNetStemChannels, 3, 3, 3}, {"stem.", "trunk_output."}};
  static const FamilyMarks kMobileNet = [] {
    FamilyMarks marks = {"0.0.weight", {kMobileNetV3StemChannels, 3, 3, 3}, {}};
    for (std::size_t i = 0; i <= kMobileNetV3Large.size() + 1; ++i) {
      marks.parts.push_back(cat(i, "."));
    }
    return marks;
  }();
  switch (family) {
    case BackboneFamily::kResNet:
      return kResNet;
    case BackboneFamily::kRegNet:
      return kRegNet;
    case BackboneFamily::kMobileNetV3:
      break;
  }
  return kMobileNet;
}

bool begins_with_one(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& one) { return name.starts_with(one); });
}

const ForeignTensor* find(const std::vector<ForeignTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// The place of the backbone in a file.
struct BodyPlace {
  BackboneFamily family = BackboneFamily::kResNet;
  std::string prefix = {};  // before the backbone's names: "module.backbone.body.", "features.", ""
  std::string subject = {};
};

BodyPlace find_body(const std::vector<ForeignTensor>& tensors, const std::string& subject) {
  for (const BackboneFamily family :
       {BackboneFamily::kResNet, BackboneFamily::kRegNet, BackboneFamily::kMobileNetV3}) {
    const auto& [stem, shape, parts] = marks_of(family);
    for (const ForeignTensor& tensor : tensors) {
      if (!tensor.name.ends_with(stem) || tensor.shape != shape) continue;
      const std::string prefix = tensor.name.substr(0, tensor.name.size() - stem.size());
      if (!prefix.empty() && !prefix.ends_with('.')) continue;
      return {.family = family, .prefix = prefix, .subject = subject};
    }
  }
  throw Error(ErrorKind::kData,
              cat(subject,
                  ": holds no ResNet, RegNet or MobileNetV3 (their first convolutions are "
                  "not among its ",
                  counted(tensors.size(), "tensor"), ")"),
              kHint);
}

// Replaces `before` at the start of `name` by `after`; leaves other names as they are.
void replace_prefix(std::string& name, const std::string& before, const std::string& after) {
  if (name.starts_with(before)) name = after + name.substr(before.size());
}

// Gives convolutions their newer names, with a place inside a block, as torchvision does in
// models/detection/retinanet.py, _v1_to_v2_weights, and ops/feature_pyramid_network.py,
// _load_from_state_dict.
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

// Returns the name of the backbone whose blocks lie behind `prefix`; "" for an unknown one.
std::string resnet_of(const std::vector<ForeignTensor>& tensors, const std::string& prefix) {
  const auto get = [&](const std::string& name) { return find(tensors, prefix + name); };
  std::array<int, 4> blocks = {};
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    while (get(cat("layer", layer + 1, ".", blocks[layer], ".conv1.weight"))) ++blocks[layer];
  }
  const bool bottleneck = get("layer1.0.conv3.weight") != nullptr;
  const ForeignTensor* const middle = get("layer1.0.conv2.weight");
  for (const std::string& name : backbone_names()) {
    if (family_of(name) != BackboneFamily::kResNet) continue;
    const ResNetShape known = resnet_shape(name);
    const int mid = known.mid_channels(0);
    if (known.blocks == blocks && known.bottleneck == bottleneck && middle != nullptr &&
        middle->shape == Shape{mid, mid / known.groups, 3, 3}) {
      return name;
    }
  }
  return "";
}

std::string regnet_of(const std::vector<ForeignTensor>& tensors, const std::string& prefix) {
  const auto get = [&](const std::string& name) { return find(tensors, prefix + name); };
  std::array<int, 4> blocks = {};
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::string name = cat("block", stage + 1);
    const auto has = [&](int block) {
      return get(cat("trunk_output.", name, ".", name, "-", block, ".f.a.0.weight")) != nullptr;
    };
    while (has(blocks[stage])) ++blocks[stage];
  }
  const ForeignTensor* const middle = get("trunk_output.block1.block1-0.f.b.0.weight");
  for (const std::string& name : backbone_names()) {
    if (family_of(name) != BackboneFamily::kRegNet) continue;
    const RegNetShape known = regnet_shape(name);
    const int width = known.widths[0];
    if (known.blocks == blocks && middle != nullptr &&
        middle->shape == Shape{width, width / known.groups(0), 3, 3}) {
      return name;
    }
  }
  return "";
}

std::string mobilenet_of(const std::vector<ForeignTensor>& tensors, const std::string& prefix) {
  const ForeignTensor* const last =
      find(tensors, cat(prefix, kMobileNetV3Large.size() + 1, ".0.weight"));
  const Shape wanted = {kMobileNetV3LastChannels, kMobileNetV3Large.back().out, 1, 1};
  if (last == nullptr || last->shape != wanted) return "";
  return backbone_names().back();
}

std::string backbone_of(const std::vector<ForeignTensor>& tensors, const BodyPlace& place) {
  const bool is_resnet = place.family == BackboneFamily::kResNet;
  const bool is_regnet = place.family == BackboneFamily::kRegNet;
  const auto name_of = is_resnet ? resnet_of : is_regnet ? regnet_of : mobilenet_of;
  const std::string name = name_of(tensors, place.prefix);
  if (!name.empty()) return name;
  std::string known;
  for (const std::string& one : backbone_names()) {
    if (family_of(one) == place.family) known += cat(known.empty() ? "" : ", ", one);
  }
  throw Error(
      ErrorKind::kData,
      cat(place.subject, ": its backbone is not one of ", known, " (other blocks or widths)"),
      kHint);
}

// Returns the beginnings of the names of a classifier's last layers.
std::vector<std::string> last_layers(BackboneFamily family) {
  if (family == BackboneFamily::kMobileNetV3) return {"classifier.0.", "classifier.3."};
  return {kClassifierPrefix};
}

// Strips the prefix of the backbone and of wrappers from all names. Throws Error{kData} unless
// every tensor belongs to a classifier of that family or to its backbone.
void strip_prefix(std::vector<ForeignTensor>& tensors, const BodyPlace& place) {
  // MobileNetV3's dense layers stand beside its body, "features.".
  constexpr std::string_view kFeatures = "features.";
  std::string wrapper = place.prefix;
  if (place.family == BackboneFamily::kMobileNetV3 && wrapper.ends_with(kFeatures)) {
    wrapper.erase(wrapper.size() - kFeatures.size());
  }
  for (ForeignTensor& tensor : tensors) {
    const auto behind = [&](const std::string& prefix) {
      return tensor.name.starts_with(prefix) ? tensor.name.substr(prefix.size()) : std::string();
    };
    const std::string last = behind(wrapper);
    const bool is_last = begins_with_one(last, last_layers(place.family));
    const std::string rest = is_last ? last : behind(place.prefix);
    if (!is_last && !begins_with_one(rest, marks_of(place.family).parts)) {
      throw Error(ErrorKind::kData,
                  cat(place.subject, ": neither a RetinaNet nor a classifier (it has a tensor ",
                      tensor.name, ")"),
                  kHint);
    }
    tensor.name = rest;
  }
}

// Keeps the backbone's tensors, under a detector's names, and drops the classifier's last layers.
// Throws as strip_prefix.
void keep_backbone(std::vector<ForeignTensor>& tensors, const BodyPlace& place) {
  strip_prefix(tensors, place);
  std::erase_if(tensors, [&](const ForeignTensor& tensor) {
    return begins_with_one(tensor.name, last_layers(place.family));
  });
  for (ForeignTensor& tensor : tensors) tensor.name = kBodyPrefix + tensor.name;
}

// Returns the anchors of a location, from the box head's four rows for each: 1, or kAnchorsPerCell
// as in torchvision's RetinaNets. Throws Error{kData} for other row counts.
int anchors_per_location(const ForeignTensor* box_layer, const std::string& subject) {
  if (box_layer == nullptr || box_layer->shape.empty()) return kAnchorsPerCell;  // refused by name
  for (const int per_location : {1, kAnchorsPerCell}) {
    if (box_layer->shape[0] == 4 * per_location) return per_location;
  }
  throw Error(
      ErrorKind::kData,
      cat(subject, ": tensor ", box_layer->name, " has ", box_layer->shape[0], " rows (want ",
          4 * kAnchorsPerCell, ": four for each of 9 anchors a location; or 4, for one)"),
      kHint);
}

std::int64_t class_rows(const ForeignTensor& layer, int per_location, const std::string& subject) {
  if (layer.shape.size() != 4 || layer.shape[0] == 0 || layer.shape[0] % per_location != 0) {
    throw Error(
        ErrorKind::kData,
        cat(subject, ": tensor ", kClassWeight, " has ", layer.shape.empty() ? 0 : layer.shape[0],
            " rows (want ", per_location, " for each class)"),
        kHint);
  }
  return layer.shape[0] / per_location;
}

// Drops the update counter of torch.optim.swa_utils.AveragedModel, stored beside the weights.
void drop_average_counter(std::vector<ForeignTensor>& tensors) {
  std::erase_if(tensors, [](const ForeignTensor& tensor) { return tensor.name == "n_averaged"; });
}

// Returns true where batch norm was trained: its counters are there.
bool has_counters(const std::vector<ForeignTensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ForeignTensor& tensor) { return is_batch_counter(tensor.name); });
}

}  // namespace

Architecture recognise_classifier(std::vector<ForeignTensor>& tensors, const std::string& subject) {
  drop_average_counter(tensors);
  const BodyPlace place = find_body(tensors, subject);
  if (place.prefix.ends_with(kBodyPrefix)) {
    throw Error(ErrorKind::kData, cat(subject, ": is a detector, not a classifier"),
                "leave out --task classify");
  }
  strip_prefix(tensors, place);
  Architecture result;
  result.backbone = backbone_of(tensors, {.family = place.family, .subject = subject});
  const auto [body, class_layer] = classifier_prefixes(result.backbone);
  const ForeignTensor* layer = find(tensors, class_layer + "weight");
  if (layer == nullptr || layer->shape.size() != 2 || layer->shape[0] == 0) {
    const std::string name = class_layer + "weight";
    throw Error(ErrorKind::kData,
                layer == nullptr ? cat(subject, ": has no last layer (", name, "): a bare backbone")
                                 : cat(subject, ": its ", name, " is not a layer (want K x C)"),
                "leave out --task classify to import the backbone");
  }
  result.class_rows = layer->shape[0];
  for (ForeignTensor& tensor : tensors) {
    if (!begins_with_one(tensor.name, last_layers(place.family))) tensor.name = body + tensor.name;
  }
  return result;
}

Architecture recognise(std::vector<ForeignTensor>& tensors, const std::string& subject) {
  drop_average_counter(tensors);
  BodyPlace place = find_body(tensors, subject);
  Architecture result;
  const ForeignTensor* class_layer = nullptr;
  if (place.prefix.ends_with(kBodyPrefix)) {
    // A detector's names lose their wrapper and get torchvision's newer form.
    const std::string wrapper = place.prefix.substr(0, place.prefix.size() - kBodyPrefix.size());
    for (ForeignTensor& tensor : tensors) {
      replace_prefix(tensor.name, wrapper, "");
      rename_older_layers(tensor.name);
    }
    class_layer = find(tensors, kClassWeight);
    place.prefix = kBodyPrefix;
  }
  if (class_layer == nullptr) {
    // Without a class layer only the backbone counts; otherwise the shapes of heads and pyramid
    // show their options.
    result.backbone_only = true;
    keep_backbone(tensors, place);
  } else {
    result.anchors_per_location =
        anchors_per_location(find(tensors, cat(kBoxHeadPrefix, kBoxLayer, ".weight")), subject);
    result.class_rows = class_rows(*class_layer, result.anchors_per_location, subject);
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
  result.backbone =
      backbone_of(tensors, {.family = place.family, .prefix = kBodyPrefix, .subject = subject});
  result.batch_norm = has_counters(tensors);
  return result;
}

}  // namespace retina
