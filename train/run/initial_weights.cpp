#include "train/run/initial_weights.h"

#include <map>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/model/heads.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

using namespace std::string_literals;

struct ClassCopy {
  std::int64_t from_label = 0, to_label = 0;
};

// Returns a class layer's weight or bias with its classes along dimension 1.
at::Tensor rows_of(const at::Tensor& layer, const ModelConfig& model) {
  return model.task == Task::kDetection ? rows_by_class(layer, model.anchors_per_location)
                                        : layer.unsqueeze(0);
}

// Returns `fresh` with the rows of some classes taken from `source`, which may have other classes.
at::Tensor merge_class_rows(const at::Tensor& fresh, const at::Tensor& source,
                            const ModelConfig& model, const std::vector<ClassCopy>& copies) {
  const at::Tensor merged = rows_of(fresh, model).clone();
  const at::Tensor rows = rows_of(source, model);
  for (const auto& [from, to] : copies) merged.select(1, to).copy_(rows.select(1, from));
  return merged.view(fresh.sizes());
}

void check_architecture(const ModelConfig& mine, const InitialModel& initial,
                        const std::string& source) {
  const ModelConfig& theirs = initial.model;
  if (theirs.backbone == kCifarCnn && mine.task == Task::kDetection) {
    throw Error(ErrorKind::kConfig,
                cat(source, ": is a cifar-cnn, which cannot be a detector's backbone"),
                "give weights of a ResNet");
  }
  std::string got, want;  // options that make the model mine, or theirs
  const auto compare = [&](const char* name, const auto& now, const auto& wanted) {
    if (now == wanted) return;
    got += cat(got.empty() ? "" : " ", name, " ", now);
    want += cat(want.empty() ? "" : " ", name, " ", wanted);
  };
  compare("--backbone", mine.backbone, theirs.backbone);
  compare("--norm-eps", shortest(mine.norm_eps), shortest(theirs.norm_eps));
  if (initial.gives_all(mine.task) && mine.task == Task::kDetection) {
    const auto p6 = [](const ModelConfig& config) { return config.p6_from_c5 ? "c5"s : "p5"s; };
    compare("--head-norm", word_of(kHeadNorms, mine.head_norm),
            word_of(kHeadNorms, theirs.head_norm));
    compare("--p6", p6(mine), p6(theirs));
    compare("--anchors-per-location", mine.anchors_per_location, theirs.anchors_per_location);
    compare("--fpn-channels", mine.fpn_channels, theirs.fpn_channels);
    compare("--head-convs", mine.head_convs, theirs.head_convs);
  }
  if (want.empty()) return;
  throw Error(ErrorKind::kConfig,
              cat(source, ": its architecture differs from the model being trained (it is ", want,
                  ", the options say ", got, ")"),
              cat("give ", want, "; what no option, recipe or size says follows --init"));
}

// Loads the checkpoint's backbone, under the network's names for it; the rest keeps the network's
// own values.
void load_backbone(Network& network, const Checkpoint& checkpoint, Task task,
                   const std::string& source) {
  const std::string& to = network.body_prefix();
  const std::string from =
      task == Task::kDetection ? kBodyPrefix : classifier_prefixes(network.config().backbone).body;
  std::map<std::string, at::Tensor> body;
  for (const auto& [name, tensor] : checkpoint.model) {
    if (name.starts_with(from)) body[to + name.substr(from.size())] = tensor;
  }
  NamedTensors state;
  for (const auto& [name, tensor] : state_of(network)) {
    const bool is_body = name.starts_with(to) && !name.starts_with(network.class_layer());
    const auto found = body.find(name);
    const bool is_found = is_body && found != body.end();
    if (is_found || !is_body) state.emplace_back(name, is_found ? found->second : tensor);
  }
  load_state(network, state, source);
  log_info(
      source, ": backbone loaded; ",
      network.config().task == Task::kDetection ? "pyramid and heads are" : "the class layer is",
      " randomly initialised");
}

}  // namespace

bool InitialModel::gives_all(Task task) const {
  return !backbone_only && model.task == task;
}

InitialModel initial_model_of(const std::string& config_json, const std::string& source) {
  const JsonFile config = JsonFile::parse(config_json, source);
  const JsonView root = config.root();
  InitialModel initial{.model = ModelConfig::from_json(root.at("model"))};
  if (root.has("import")) {
    initial.backbone_only = root.at("import").at("backbone_only").as_bool();
  }
  return initial;
}

void check_initial_weights(const std::string& path, const ModelConfig& model) {
  check_architecture(model, initial_model_of(read_checkpoint_header(path).config_json, path), path);
}

void load_initial_weights(Network& network, const Checkpoint& checkpoint,
                          const Categories& categories, std::uint64_t seed,
                          const std::string& source) {
  const InitialModel initial = initial_model_of(checkpoint.config_json, source);
  const ModelConfig& model = network.config();
  check_architecture(model, initial, source);
  if (!initial.gives_all(model.task)) {
    return load_backbone(network, checkpoint, initial.model.task, source);
  }
  if (model.task == Task::kDetection && model.anchor_sizes != initial.model.anchor_sizes) {
    log_warning(
        source,
        ": was trained with other --anchor-sizes: initial box predictions will be less accurate");
  }

  std::map<std::string, std::int64_t> labels;
  for (std::size_t i = 0; i < checkpoint.categories.size(); ++i) {
    labels.emplace(checkpoint.categories[i].name, static_cast<std::int64_t>(i));
  }
  std::vector<ClassCopy> copies;
  std::string fresh_names;
  for (std::size_t i = 0; i < categories.size(); ++i) {
    const auto found = labels.find(categories[i].name);
    if (found != labels.end()) {
      copies.push_back({.from_label = found->second, .to_label = static_cast<std::int64_t>(i)});
    } else {
      fresh_names += cat(fresh_names.empty() ? "" : ", ", categories[i].name);
    }
  }
  NamedTensors state;
  for (const auto& item : checkpoint.model) {
    const bool class_rows = item.name.starts_with(network.class_layer());
    state.emplace_back(item.name, class_rows
                                      ? merge_class_rows(initial_value(network, item.name, seed),
                                                         item.tensor, model, copies)
                                      : item.tensor);
  }
  load_state(network, state, source);
  log_info(source, ": weights loaded; ", copies.size(), " of ",
           counted(categories.size(), "class", "classes"), " matched by name",
           fresh_names.empty() ? "" : cat(", randomly initialised: ", fresh_names));
}

}  // namespace retina
