#include "convert/import/architecture.h"
#include "convert/import/class_names.h"
#include "convert/import/foreign_network.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/coco/categories.h"
#include "shared/model/classifier.h"

namespace retina {
namespace {

constexpr double kNormEps = 1e-5;  // torchvision's

Categories categories_of(const ImportOptions& options, std::int64_t row_count) {
  const std::string hint = "add --categories FILE: annotations.json, or a text with a name a line";
  if (options.categories.empty()) {
    throw Error(
        ErrorKind::kConfig,
        cat(options.weights, ": nothing names its ", counted(row_count, "class", "classes")), hint);
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

ForeignNetwork classifier_of(std::vector<ForeignTensor> tensors, const ImportOptions& options) {
  const Architecture architecture = recognise_classifier(tensors, options.weights);
  // Not in the braces of an initialiser: g++ 12 destroys members twice where one throws there.
  ForeignNetwork network;
  network.categories = categories_of(options, architecture.class_rows);
  ModelConfig& config = network.config;
  config = options.config;
  config.backbone = architecture.backbone;
  config.class_count = static_cast<int>(architecture.class_rows);
  config.norm = Norm::kBatch;
  config.norm_eps = options.norm_eps.value_or(kNormEps);

  NamedTensors state;
  for (const ForeignTensor& foreign : tensors) state.emplace_back(foreign.name, to_tensor(foreign));
  check_finite(state, options.weights);
  check_variances(state, config, options.weights);
  const std::unique_ptr<Classifier> model = make_classifier(config);
  load_state(*model, state, options.weights);
  network.model = state_of(*model);
  network.summary =
      cat(config.backbone, " classifier, ", counted(config.class_count, "class", "classes"),
          ", batch norm epsilon ", shortest(config.norm_eps));
  return network;
}

}  // namespace retina
