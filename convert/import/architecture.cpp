#include "convert/import/foreign_network.h"

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
using Tensors = std::vector<ForeignTensor>;

[[noreturn]] void refuse(const std::string& subject, const std::string& problem,
                         const std::string& hint = kHint) {
  throw Error(ErrorKind::kData, cat(subject, ": ", problem), hint);
}

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

const ForeignTensor* find(const Tensors& tensors, const std::string& name) {
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

BodyPlace find_body(const Tensors& tensors, const std::string& subject) {
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
  refuse(subject, "holds no ResNet, RegNet or MobileNetV3");
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

// Returns true if the tensors behind `prefix` have the blocks and widths of the backbone `name`.
bool is_backbone(const Tensors& tensors, const std::string& prefix, const std::string& name) {
  const auto shape_of = [&](const std::string& tensor) {
    const ForeignTensor* const found = find(tensors, prefix + tensor);
    return found == nullptr ? Shape() : found->shape;
  };
  // Counts the blocks of each stage; `first` names a block's first weight.
  const auto blocks = [&](const auto& first) {
    std::array<int, 4> counts = {};
    for (std::size_t stage = 0; stage < counts.size(); ++stage) {
      while (!shape_of(first(stage + 1, counts[stage])).empty()) ++counts[stage];
    }
    return counts;
  };
  switch (family_of(name)) {
    case BackboneFamily::kResNet: {
      const ResNetShape known = resnet_shape(name);
      const int mid = known.mid_channels(0);
      return known.blocks == blocks([](std::size_t stage, int block) {
               return cat("layer", stage, ".", block, ".conv1.weight");
             }) &&
             known.bottleneck == !shape_of("layer1.0.conv3.weight").empty() &&
             shape_of("layer1.0.conv2.weight") == Shape{mid, mid / known.groups, 3, 3};
    }
    case BackboneFamily::kRegNet: {
      const RegNetShape known = regnet_shape(name);
      const int width = known.widths[0];
      return known.blocks == blocks([](std::size_t stage, int block) {
               return cat("trunk_output.block", stage, ".block", stage, "-", block,
                          ".f.a.0.weight");
             }) &&
             shape_of("trunk_output.block1.block1-0.f.b.0.weight") ==
                 Shape{width, width / known.groups(0), 3, 3};
    }
    case BackboneFamily::kMobileNetV3:
      break;
  }
  return shape_of(cat(kMobileNetV3Large.size() + 1, ".0.weight")) ==
         Shape{kMobileNetV3LastChannels, kMobileNetV3Large.back().out, 1, 1};
}

std::string backbone_of(const Tensors& tensors, const BodyPlace& place) {
  for (const std::string& name : backbone_names()) {
    if (family_of(name) == place.family && is_backbone(tensors, place.prefix, name)) return name;
  }
  refuse(place.subject, "its backbone has other blocks or widths than those of retina-train");
}

// Returns the beginnings of the names of a classifier's last layers.
std::vector<std::string> last_layers(BackboneFamily family) {
  if (family == BackboneFamily::kMobileNetV3) return {"classifier.0.", "classifier.3."};
  return {kClassifierPrefix};
}

// Strips the prefix of the backbone and of wrappers from all names. Throws Error{kData} unless
// every tensor belongs to a classifier of that family or to its backbone.
void strip_prefix(Tensors& tensors, const BodyPlace& place) {
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
      refuse(place.subject,
             cat("neither a RetinaNet nor a classifier (it has a tensor ", tensor.name, ")"));
    }
    tensor.name = rest;
  }
}

// Returns the anchors of a location, from the box head's four rows for each: 1, or kAnchorsPerCell
// as in torchvision's RetinaNets. Throws Error{kData} for other row counts.
int anchors_per_location(const ForeignTensor* box_layer, const std::string& subject) {
  if (box_layer == nullptr || box_layer->shape.empty()) return kAnchorsPerCell;  // refused by name
  const std::int64_t rows = box_layer->shape[0];
  if (rows == 4 || rows == 4 * kAnchorsPerCell) return static_cast<int>(rows / 4);
  refuse(subject, cat("tensor ", box_layer->name, " has ", rows, " rows (want ",
                      4 * kAnchorsPerCell, ": four for each of 9 anchors a location; or 4)"));
}

// Drops the update counter of torch.optim.swa_utils.AveragedModel, stored beside the weights.
void drop_average_counter(Tensors& tensors) {
  std::erase_if(tensors, [](const ForeignTensor& tensor) { return tensor.name == "n_averaged"; });
}

// Sets what the shapes of a detector's heads and pyramid show, and the number of class rows.
void read_heads(const Tensors& tensors, const ForeignTensor& class_layer,
                const std::string& subject, ForeignArchitecture& result) {
  ModelConfig& config = result.config;
  config.anchors_per_location =
      anchors_per_location(find(tensors, cat(kBoxHeadPrefix, kBoxLayer, ".weight")), subject);
  if (class_layer.shape.size() != 4 || class_layer.shape[0] == 0 ||
      class_layer.shape[0] % config.anchors_per_location != 0) {
    refuse(subject, cat("tensor ", kClassWeight, " does not have ", config.anchors_per_location,
                        " rows for each class"));
  }
  result.class_rows = class_layer.shape[0] / config.anchors_per_location;
  const bool has_norm = find(tensors, kClassHeadPrefix + "conv.0.1.weight") != nullptr;
  config.head_norm = has_norm ? HeadNorm::kGroup : HeadNorm::kNone;
  config.head_convs = 4;
  const auto has_conv = [&](int number) {
    return find(tensors, cat(kClassHeadPrefix, "conv.", number, ".0.weight")) != nullptr;
  };
  while (config.head_convs > 1 && !has_conv(config.head_convs - 1)) --config.head_convs;
  const ForeignTensor* p6 = find(tensors, kFpnPrefix + "extra_blocks.p6.weight");
  config.p6_from_c5 = false;
  if (p6 != nullptr && p6->shape.size() == 4 && is_pyramid_width(p6->shape[0])) {
    config.fpn_channels = static_cast<int>(p6->shape[0]);
    config.p6_from_c5 = p6->shape[1] != p6->shape[0];
  }
}

}  // namespace

ForeignArchitecture recognise_classifier(Tensors& tensors, const ImportOptions& options) {
  const std::string& subject = options.weights;
  const std::string hint = "leave out --task classify";
  drop_average_counter(tensors);
  const BodyPlace place = find_body(tensors, subject);
  if (place.prefix.ends_with(kBodyPrefix)) {
    refuse(subject, "is a detector, not a classifier", hint);
  }
  strip_prefix(tensors, place);
  ForeignArchitecture result{.config = options.config};
  result.config.backbone = backbone_of(tensors, {.family = place.family, .subject = subject});
  result.config.norm = Norm::kBatch;
  const auto [body, class_layer] = classifier_prefixes(result.config.backbone);
  const ForeignTensor* layer = find(tensors, class_layer + "weight");
  if (layer == nullptr || layer->shape.size() != 2 || layer->shape[0] == 0) {
    refuse(subject, cat("has no last layer (", class_layer, "weight [K, C]): a bare backbone"),
           hint);
  }
  result.class_rows = layer->shape[0];
  for (ForeignTensor& tensor : tensors) {
    if (!begins_with_one(tensor.name, last_layers(place.family))) tensor.name = body + tensor.name;
  }
  return result;
}

ForeignArchitecture recognise(Tensors& tensors, const ImportOptions& options) {
  const std::string& subject = options.weights;
  drop_average_counter(tensors);
  BodyPlace place = find_body(tensors, subject);
  ForeignArchitecture result{.config = options.config};
  const ForeignTensor* class_layer = nullptr;
  if (place.prefix.ends_with(kBodyPrefix)) {
    // A detector's names lose their wrapper and get torchvision's newer form.
    const std::string wrapper = place.prefix.substr(0, place.prefix.size() - kBodyPrefix.size());
    for (ForeignTensor& tensor : tensors) {
      if (tensor.name.starts_with(wrapper)) tensor.name.erase(0, wrapper.size());
      rename_older_layers(tensor.name);
    }
    class_layer = find(tensors, kClassWeight);
    place.prefix = kBodyPrefix;
  }
  // Without a class layer only the backbone counts, under a detector's names.
  result.backbone_only = class_layer == nullptr;
  if (result.backbone_only) {
    strip_prefix(tensors, place);
    std::erase_if(tensors, [&](const ForeignTensor& tensor) {
      return begins_with_one(tensor.name, last_layers(place.family));
    });
    for (ForeignTensor& tensor : tensors) tensor.name = kBodyPrefix + tensor.name;
  } else {
    read_heads(tensors, *class_layer, subject, result);
  }
  result.config.backbone =
      backbone_of(tensors, {.family = place.family, .prefix = kBodyPrefix, .subject = subject});
  // Trained with batch norm: the counters are there.
  const bool has_counters =
      std::any_of(tensors.begin(), tensors.end(),
                  [](const ForeignTensor& tensor) { return is_batch_counter(tensor.name); });
  result.config.norm = has_counters ? Norm::kBatch : Norm::kFrozen;
  return result;
}

}  // namespace retina
