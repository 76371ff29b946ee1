#include "convert/import/foreign_network.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <cstring>
#include <utility>

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
double detector_norm_eps(const ForeignArchitecture& found) {
  if (found.backbone_only) return classifier_norm_eps(found.config.backbone);
  const bool published = found.config.head_norm == HeadNorm::kNone && found.class_rows == kCocoRows;
  return published ? 0 : kNormEps;
}

[[noreturn]] void refuse_unknown_names(const ImportOptions& options, std::int64_t row_count) {
  throw Error(ErrorKind::kConfig,
              cat(options.weights, ": the names of its ", counted(row_count, "class", "classes"),
                  " are unknown"),
              options.config.task == Task::kDetection
                  ? "add --categories annotations.json (or coco)"
                  : "add --categories FILE: annotations.json, or a text with a name a line");
}

// Returns the network's tensors. `classes` names the rows of the class layer to take.
NamedTensors foreign_state(const std::vector<ForeignTensor>& tensors,
                           const ForeignArchitecture& found, const ClassRows& classes,
                           const std::string& subject) {
  const int per_location = found.config.anchors_per_location;
  const std::int64_t all_rows = per_location * found.class_rows;
  NamedTensors state;
  for (const ForeignTensor& foreign : tensors) {
    at::Tensor tensor = to_tensor(foreign);
    if (foreign.name.starts_with(kClassLayerPrefix)) {
      if (tensor.dim() == 0 || tensor.size(0) != all_rows) {
        throw Error(ErrorKind::kData,
                    cat(subject, ": tensor ", foreign.name, " does not have ", all_rows, " rows"));
      }
      tensor = select_rows(tensor, per_location, classes);
    }
    state.emplace_back(foreign.name, tensor);
  }
  return state;
}

std::string summary(const ForeignArchitecture& found) {
  const ModelConfig& config = found.config;
  if (found.backbone_only) {
    return cat(config.backbone, " backbone; pyramid and heads are randomly initialised");
  }
  return cat(config.backbone, " RetinaNet of torchvision's ",
             config.head_norm == HeadNorm::kGroup ? "v2" : "v1", " kind, ",
             counted(config.class_count, "class", "classes"), " (of ",
             counted(found.class_rows, "row"), ")",
             config.anchors_per_location == 1 ? cat(", 1 anchor a location (--anchor-sizes ",
                                                    anchor_sizes_text(config.anchor_sizes), ")")
                                              : "",
             ", batch norm epsilon ", shortest(config.norm_eps));
}

// --- Classifiers --------------------------------------------------------------------------------

Categories classifier_categories(const ImportOptions& options, std::int64_t row_count) {
  if (options.categories.empty()) refuse_unknown_names(options, row_count);
  const Categories categories = read_class_names(options.categories);
  if (static_cast<std::int64_t>(categories.size()) != row_count) {
    throw Error(ErrorKind::kConfig,
                cat(options.weights, ": its ", row_count, " classes do not fit ",
                    options.categories, " (got ", counted(categories.size(), "name"), ")"));
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
  ForeignArchitecture found = recognise(tensors, options);
  std::string names = options.categories;
  if (names.empty()) {
    if (!found.backbone_only && found.class_rows != kCocoRows) {
      refuse_unknown_names(options, found.class_rows);
    }
    names = "coco";
  }
  const CategoryMap categories = read_import_categories(names);
  const ClassRows classes =
      found.backbone_only ? ClassRows{.categories = categories.all()}
                          : fit_class_rows(found.class_rows, categories, options.weights, names);
  ModelConfig& config = found.config;
  config.class_count = static_cast<int>(classes.categories.size());
  config.norm_eps = options.norm_eps.value_or(detector_norm_eps(found));

  // A bare backbone gets random values for the layers that it lacks.
  RetinaNet model(config);
  NamedTensors state = foreign_state(tensors, found, classes, options.weights);
  check_numbers(state, config, options.weights);
  if (found.backbone_only) {
    initialise(model, kFreshSeed);
    for (const auto& [name, tensor] : state_of(model)) {
      if (!name.starts_with(kBodyPrefix)) state.emplace_back(name, tensor.clone());
    }
  }
  load_state(model, state, options.weights);

  return {.config = config,
          .model = state_of(model),
          .categories = classes.categories,
          .backbone_only = found.backbone_only,
          .summary = summary(found)};
}

ForeignNetwork classifier_of(std::vector<ForeignTensor> tensors, const ImportOptions& options) {
  const ForeignArchitecture found = recognise_classifier(tensors, options);
  // Not in the braces of an initialiser: g++ 12 destroys members twice when one of them throws.
  ForeignNetwork network;
  network.categories = classifier_categories(options, found.class_rows);
  ModelConfig& config = network.config;
  config = found.config;
  config.class_count = static_cast<int>(found.class_rows);
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
