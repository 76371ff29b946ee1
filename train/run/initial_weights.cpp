#include "train/run/initial_weights.h"

#include <map>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

using namespace std::string_literals;

struct ClassCopy {
  std::int64_t from_label = 0, to_label = 0;
};

// `fresh` with the rows of some classes taken from `source`, which may have other classes.
at::Tensor merge_class_rows(const at::Tensor& fresh, const at::Tensor& source,
                            const std::vector<ClassCopy>& copies) {
  const at::Tensor merged = rows_by_class(fresh).clone();
  const at::Tensor rows = rows_by_class(source);
  for (const auto& [from, to] : copies) merged.select(1, to).copy_(rows.select(1, from));
  return merged.view(fresh.sizes());
}

// What a checkpoint holds.
struct Content {
  ModelConfig model{};
  // An import of an image classifier: its pyramid and heads are placeholders.
  bool backbone_only = false;
};

Content content_of(const std::string& config_json, const std::string& source) {
  const JsonFile config = JsonFile::parse(config_json, source);
  const JsonView root = config.root();
  return {.model = ModelConfig::from_json(root.at("model")),
          .backbone_only = root.has("import") && root.at("import").at("backbone_only").as_bool()};
}

void check_architecture(const ModelConfig& mine, const Content& content,
                        const std::string& source) {
  const ModelConfig& theirs = content.model;
  std::string options;  // that would make the model theirs
  const auto compare = [&](const char* name, const auto& now, const auto& want) {
    if (now != want) options += cat(options.empty() ? "" : " ", "--", name, " ", want);
  };
  compare("backbone", mine.backbone, theirs.backbone);
  compare("norm-eps", shortest(mine.norm_eps), shortest(theirs.norm_eps));
  if (!content.backbone_only) {  // a backbone alone fits any heads
    const auto p6 = [](const ModelConfig& config) { return config.p6_from_c5 ? "c5"s : "p5"s; };
    compare("head-norm", word_of(kHeadNorms, mine.head_norm),
            word_of(kHeadNorms, theirs.head_norm));
    compare("p6", p6(mine), p6(theirs));
  }
  if (options.empty()) return;
  throw Error(ErrorKind::kConfig,
              cat(source, ": its weights are of another architecture (want ", options, ")"),
              cat("add ", options));
}

// The checkpoint's backbone, and the model's own values for the rest.
void load_backbone(RetinaNet& model, const Checkpoint& checkpoint, const std::string& source) {
  NamedTensors state;
  for (const auto& item : checkpoint.model) {
    if (item.name.starts_with(kBodyPrefix)) state.emplace_back(item.name, item.tensor);
  }
  for (const auto& [name, tensor] : state_of(model)) {
    if (!name.starts_with(kBodyPrefix)) state.emplace_back(name, tensor);
  }
  load_state(model, state, source);
  log_info(source, ": backbone taken; pyramid and heads start fresh");
}

}  // namespace

void check_initial_weights(const std::string& path, const ModelConfig& model) {
  check_architecture(model, content_of(read_checkpoint_header(path).config_json, path), path);
}

void load_initial_weights(RetinaNet& model, const Checkpoint& checkpoint,
                          const Categories& categories, std::uint64_t seed,
                          const std::string& source) {
  const Content content = content_of(checkpoint.config_json, source);
  check_architecture(model.config(), content, source);
  if (content.backbone_only) return load_backbone(model, checkpoint, source);
  if (model.config().anchor_sizes != content.model.anchor_sizes) {
    log_warning(source, ": was trained with other --anchor-sizes: boxes start from worse guesses");
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
    const bool class_rows = item.name.starts_with(kClassLayerPrefix);
    state.emplace_back(
        item.name,
        class_rows ? merge_class_rows(initial_value(model, item.name, seed), item.tensor, copies)
                   : item.tensor);
  }
  load_state(model, state, source);
  log_info(source, ": weights taken; ", copies.size(), " of ", categories.size(),
           " classes matched by name", fresh_names.empty() ? "" : cat(", fresh: ", fresh_names));
}

std::string manifest_fingerprint(const Manifest& manifest) {
  return hex64(xxh3(encode_manifest(manifest)));
}

}  // namespace retina
