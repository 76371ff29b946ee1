#include "convert/import/foreign_network.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <cstring>
#include <utility>

#include "convert/import/architecture.h"
#include "convert/import/categories.h"
#include "shared/anchor/anchor_fit.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/model/classifier.h"
#include "shared/model/network_shape.h"
#include "shared/model/retinanet.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

// torchvision's default.
constexpr double kNormEps = 1e-5;
constexpr double kMobileNetNormEps = 1e-3;  // of torchvision's MobileNetV3 classifiers
// Indexed by ElementKind.
constexpr std::array<at::ScalarType, 10> kScalarTypes = {
    at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
    at::kInt,   at::kShort,  at::kChar, at::kByte,     at::kBool};

// Returns a copy, since the file's bytes are not aligned.
at::Tensor to_tensor(const ForeignTensor& foreign) {
  const auto count =
      static_cast<std::int64_t>(foreign.bytes.size() / element_bytes(foreign.element));
  const at::Tensor memory = at::empty(
      {count},
      at::TensorOptions().dtype(kScalarTypes.at(static_cast<std::size_t>(foreign.element))));
  if (count > 0) std::memcpy(memory.data_ptr(), foreign.bytes.data(), foreign.bytes.size());
  return at::as_strided(memory, foreign.shape, foreign.strides);
}

// Checks every tensor as check_finite does. Throws Error{kConfig} where both the epsilon and a
// channel's variance are 0, which would divide by 0.
void check_numbers(const NamedTensors& state, const ModelConfig& config,
                   const std::string& subject) {
  check_finite(state, subject);
  if (config.norm_eps > 0) return;
  for (const auto& [name, tensor] : state) {
    if (!name.ends_with(".running_var") || tensor.gt(0).all().item<bool>()) continue;
    throw Error(ErrorKind::kConfig,
                cat(subject, ": tensor ", name, " has a variance of 0, which needs an epsilon"),
                "add --norm-eps 1e-5");
  }
}

// --- Detectors ----------------------------------------------------------------------------------

constexpr std::uint64_t kFreshSeed = 1;  // for layers a backbone lacks; --init draws them again
constexpr std::int64_t kCocoRows = 91;   // torchvision's published detectors: COCO's ids 0 to 90

at::Tensor select_rows(const at::Tensor& layer, int per_location, const ClassRows& classes) {
  return rows_by_class(layer, per_location).index_select(1, at::tensor(classes.rows)).flatten(0, 1);
}

double classifier_norm_eps(const std::string& backbone) {
  const bool is_mobile = family_of(backbone) == BackboneFamily::kMobileNetV3;
  return is_mobile ? kMobileNetNormEps : kNormEps;
}

// Returns torchvision's epsilon: 0 for its published COCO weights of the v1 model, 91 rows
// (overwrite_eps), else the default; for a backbone that of its classifier.
double default_norm_eps(const Architecture& architecture) {
  if (architecture.backbone_only) return classifier_norm_eps(architecture.backbone);
  const bool published = !architecture.group_norm && architecture.class_rows == kCocoRows;
  return published ? 0 : kNormEps;
}

std::string choose_categories(const ImportOptions& options, const Architecture& architecture) {
  if (!options.categories.empty()) return options.categories;
  if (architecture.backbone_only || architecture.class_rows == kCocoRows) return "coco";
  throw Error(ErrorKind::kConfig,
              cat(options.weights, ": the names of its ",
                  counted(architecture.class_rows, "class", "classes"), " are unknown"),
              "add --categories annotations.json (or coco)");
}

ModelConfig model_config(const ImportOptions& options, const Architecture& architecture,
                         std::size_t class_count) {
  ModelConfig config = options.config;
  config.backbone = architecture.backbone;
  config.class_count = static_cast<int>(class_count);
  config.norm = architecture.batch_norm ? Norm::kBatch : Norm::kFrozen;
  config.norm_eps = options.norm_eps.value_or(default_norm_eps(architecture));
  if (!architecture.backbone_only) {
    config.head_norm = architecture.group_norm ? HeadNorm::kGroup : HeadNorm::kNone;
    config.p6_from_c5 = architecture.p6_from_c5;
    config.anchors_per_location = architecture.anchors_per_location;
    config.fpn_channels = architecture.fpn_channels;
    config.head_convs = architecture.head_convs;
  }
  return config;
}

// Returns the network's tensors. `classes` names the rows of the class layer to take.
NamedTensors foreign_state(const std::vector<ForeignTensor>& tensors,
                           const Architecture& architecture, const ClassRows& classes,
                           const std::string& subject) {
  const int per_location = architecture.anchors_per_location;
  const std::int64_t all_rows = per_location * architecture.class_rows;
  NamedTensors state;
  for (const ForeignTensor& foreign : tensors) {
    const at::Tensor tensor = to_tensor(foreign);
    const bool scores = foreign.name.starts_with(kClassLayerPrefix);
    if (scores && (tensor.dim() == 0 || tensor.size(0) != all_rows)) {
      throw Error(
          ErrorKind::kData,
          cat(subject, ": tensor ", foreign.name, " has ",
              counted(tensor.dim() == 0 ? 0 : tensor.size(0), "row"), " (want ", all_rows, ")"),
          "is it a RetinaNet with 9 anchors per cell, or 1?");
    }
    state.emplace_back(foreign.name, scores ? select_rows(tensor, per_location, classes) : tensor);
  }
  return state;
}

std::string summary(const Architecture& architecture, const ModelConfig& config) {
  if (architecture.backbone_only) {
    return cat(config.backbone, " backbone; pyramid and heads are randomly initialised");
  }
  return cat(config.backbone, " RetinaNet of torchvision's ",
             config.head_norm == HeadNorm::kGroup ? "v2" : "v1", " kind, ",
             counted(config.class_count, "class", "classes"), " (of ",
             counted(architecture.class_rows, "row"), ")",
             config.anchors_per_location == 1 ? cat(", 1 anchor a location (--anchor-sizes ",
                                                    anchor_sizes_text(config.anchor_sizes), ")")
                                              : "",
             ", batch norm epsilon ", shortest(config.norm_eps));
}

// --- Classifiers --------------------------------------------------------------------------------

Categories classifier_categories(const ImportOptions& options, std::int64_t row_count) {
  const std::string hint = "add --categories FILE: annotations.json, or a text with a name a line";
  if (options.categories.empty()) {
    throw Error(ErrorKind::kConfig,
                cat(options.weights, ": the names of its ", counted(row_count, "class", "classes"),
                    " are unknown"),
                hint);
  }
  const Categories categories = read_class_names(options.categories);
  if (static_cast<std::int64_t>(categories.size()) != row_count) {
    throw Error(ErrorKind::kConfig,
                cat(options.weights, ": its ", row_count, " classes do not fit ",
                    options.categories, " (got ", counted(categories.size(), "name"), ")"),
                hint);
  }
  if (const auto labels = CategoryMap(categories).equal_names()) {
    log_warning(options.categories, ": classes ", labels->first, " and ", labels->second,
                " are both called \"",
                escaped(categories[static_cast<std::size_t>(labels->first)].name),
                "\": retina-train --init matches classes by name");
  }
  return categories;
}

}  // namespace

void check_finite(const NamedTensors& state, const std::string& subject) {
  for (const auto& [name, tensor] : state) {
    if (name.ends_with("running_var") && tensor.lt(0).any().item<bool>()) {
      throw Error(ErrorKind::kData,
                  cat(subject, ": tensor ", name, " has values below 0, which no variance has"),
                  "take an intact file");
    }
    if (!tensor.is_floating_point()) {
      if (name.ends_with("num_batches_tracked")) continue;
      throw Error(ErrorKind::kData,
                  cat(subject, ": tensor ", name, " has integers (want floating-point numbers)"),
                  "of a quantized model, take the one that it was made from");
    }
    const at::Tensor finite = at::isfinite(tensor.to(at::kFloat));
    if (finite.all().item<bool>()) continue;
    throw Error(ErrorKind::kData,
                cat(subject, ": tensor ", name, " has values that are not finite (got ",
                    tensor.numel() - finite.sum().item<std::int64_t>(), " of ", tensor.numel(),
                    " NaN, infinite or beyond f32)"),
                "its training diverged: take an earlier checkpoint of it");
  }
}

ForeignNetwork detector_of(std::vector<ForeignTensor> tensors, const ImportOptions& options) {
  // The file's network, and the class rows that are taken.
  const Architecture architecture = recognise(tensors, options.weights);
  const std::string names = choose_categories(options, architecture);
  const CategoryMap categories = read_import_categories(names);
  const ClassRows classes =
      architecture.backbone_only
          ? ClassRows{.categories = categories.all()}
          : fit_class_rows(architecture.class_rows, categories, options.weights, names);
  const ModelConfig config = model_config(options, architecture, classes.categories.size());

  // A bare backbone gets random values for the layers that it lacks.
  RetinaNet model(config);
  NamedTensors state = foreign_state(tensors, architecture, classes, options.weights);
  check_numbers(state, config, options.weights);
  if (architecture.backbone_only) {
    initialise(model, kFreshSeed);
    for (const auto& [name, tensor] : state_of(model)) {
      if (!name.starts_with(kBodyPrefix)) state.emplace_back(name, tensor.clone());
    }
  }
  load_state(model, state, options.weights);

  return {.config = config,
          .model = state_of(model),
          .categories = classes.categories,
          .backbone_only = architecture.backbone_only,
          .summary = summary(architecture, config)};
}

ForeignNetwork classifier_of(std::vector<ForeignTensor> tensors, const ImportOptions& options) {
  const Architecture architecture = recognise_classifier(tensors, options.weights);
  // Not in the braces of an initialiser: g++ 12 destroys members twice when one of them throws.
  ForeignNetwork network;
  network.categories = classifier_categories(options, architecture.class_rows);
  ModelConfig& config = network.config;
  config = options.config;
  config.backbone = architecture.backbone;
  config.class_count = static_cast<int>(architecture.class_rows);
  config.norm = Norm::kBatch;
  config.norm_eps = options.norm_eps.value_or(classifier_norm_eps(config.backbone));

  NamedTensors state;
  for (const ForeignTensor& foreign : tensors) state.emplace_back(foreign.name, to_tensor(foreign));
  check_numbers(state, config, options.weights);
  const std::unique_ptr<Classifier> model = make_classifier(config);
  load_state(*model, state, options.weights);
  network.model = state_of(*model);
  network.summary =
      cat(config.backbone, " classifier, ", counted(config.class_count, "class", "classes"),
          ", batch norm epsilon ", shortest(config.norm_eps));
  return network;
}

}  // namespace retina
