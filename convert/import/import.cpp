#include "convert/import/import.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "convert/import/architecture.h"
#include "convert/import/class_rows.h"
#include "convert/import/pth_file.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/inference_file.h"
#include "shared/model/retinanet.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

constexpr std::uint64_t kFreshSeed = 1;  // of what a backbone does not have; --init draws it again
constexpr std::int64_t kCocoRows = 91;   // torchvision's published detectors: COCO's ids 0 to 90

at::ScalarType scalar_type(ElementKind kind) {
  switch (kind) {
    case ElementKind::kFloat32:
      return at::kFloat;
    case ElementKind::kFloat64:
      return at::kDouble;
    case ElementKind::kFloat16:
      return at::kHalf;
    case ElementKind::kBfloat16:
      return at::kBFloat16;
    case ElementKind::kInt64:
      return at::kLong;
    case ElementKind::kInt32:
      return at::kInt;
    case ElementKind::kInt16:
      return at::kShort;
    case ElementKind::kInt8:
      return at::kChar;
    case ElementKind::kUint8:
      return at::kByte;
    case ElementKind::kBool:
      return at::kBool;
  }
  RETINA_CHECK(false, "element kind ", static_cast<int>(kind));
  return at::kFloat;
}

// A copy: the file's bytes are not aligned.
at::Tensor to_tensor(const ForeignTensor& foreign) {
  const auto count =
      static_cast<std::int64_t>(foreign.bytes.size() / element_bytes(foreign.element));
  const at::Tensor memory =
      at::empty({count}, at::TensorOptions().dtype(scalar_type(foreign.element)));
  if (count > 0) std::memcpy(memory.data_ptr(), foreign.bytes.data(), foreign.bytes.size());
  return at::as_strided(memory, foreign.shape, foreign.strides);
}

at::Tensor select_rows(const at::Tensor& layer, const ClassRows& classes) {
  return rows_by_class(layer).index_select(1, at::tensor(classes.rows)).flatten(0, 1);
}

// torchvision runs its published COCO weights of the v1 model, 91 rows, with eps 0 (overwrite_eps);
// everything else with the default.
double default_norm_eps(const Architecture& architecture) {
  const bool published = !architecture.group_norm && architecture.class_rows == kCocoRows;
  return published ? 0 : 1e-5;
}

std::string choose_categories(const ImportOptions& options, const Architecture& architecture) {
  if (!options.categories.empty()) return options.categories;
  if (architecture.backbone_only || architecture.class_rows == kCocoRows) return "coco";
  throw Error(ErrorKind::kConfig,
              cat(options.weights, ": nothing says what its ", architecture.class_rows,
                  " classes are called"),
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
  }
  return config;
}

// With eps 0 a channel without variance divides by zero.
void check_variances(const NamedTensors& state, const ModelConfig& config,
                     const std::string& subject) {
  if (config.norm_eps > 0) return;
  for (const auto& [name, tensor] : state) {
    if (!name.ends_with(".running_var") || tensor.gt(0).all().item<bool>()) continue;
    throw Error(ErrorKind::kConfig,
                cat(subject, ": tensor ", name, " has a variance of 0, which needs an epsilon"),
                "add --norm-eps 1e-5");
  }
}

// `class_rows` is how many the file's class layer has for each anchor, `classes` which to take.
NamedTensors foreign_state(const std::vector<ForeignTensor>& tensors, std::int64_t class_rows,
                           const ClassRows& classes, const std::string& subject) {
  NamedTensors state;
  for (const ForeignTensor& foreign : tensors) {
    const at::Tensor tensor = to_tensor(foreign);
    const bool scores = foreign.name.starts_with(kClassLayerPrefix);
    if (scores && (tensor.dim() == 0 || tensor.size(0) != kAnchorsPerCell * class_rows)) {
      throw Error(
          ErrorKind::kData,
          cat(subject, ": tensor ", foreign.name, " has ", tensor.dim() == 0 ? 0 : tensor.size(0),
              " rows (want ", kAnchorsPerCell * class_rows, ")"),
          "is it a RetinaNet with 9 anchors per cell?");
    }
    state.emplace_back(foreign.name, scores ? select_rows(tensor, classes) : tensor);
  }
  return state;
}

bool is_inference_model(const std::string& path) {
  try {
    return model_file_kind(path) == ModelFileKind::kInference;
  } catch (const Error&) {
    return false;
  }
}

// What retina-convert wrote itself is named as what it is, not by how its zip differs from a .pth.
std::vector<ForeignTensor> read_tensors(std::string_view file, const std::string& subject) {
  try {
    return parse_pth(file, subject);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData || !is_inference_model(subject)) throw;
  }
  throw Error(
      ErrorKind::kData,
      cat(subject, ": is an inference model that retina-convert wrote, not weights to import"),
      "retina-eval --model takes it as it is; retina-train --init takes the checkpoint that it "
      "was made from");
}

// What a second run compares; kept in the checkpoint's config as "import".
std::string import_json(const ImportOptions& options, std::uint64_t source_hash) {
  JsonWriter json;
  json.begin_object();
  json.field("weights", hex64(source_hash));
  json.field("categories", options.categories.empty() || options.categories == "coco"
                               ? options.categories
                               : hex64(xxh3(read_file(options.categories))));
  json.field("norm-eps", options.norm_eps ? shortest(*options.norm_eps) : "");
  json.key("sizes").raw(options.config.to_json());
  return json.end_object().text();
}

// True when the output already exists and was made from the same inputs; throws when it was made
// from others.
bool already_imported(const ImportOptions& options, const std::string& made_from) {
  if (!path_exists(options.output)) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(options.output, options.weights, ignored)) {
    throw Error(ErrorKind::kConfig, cat(options.output, ": is the imported file itself"),
                "choose another --output");
  }
  if (is_folder(options.output)) {
    throw Error(ErrorKind::kCannotCreate, cat(options.output, ": is a folder (want a file)"),
                "choose another --output");
  }
  std::string found;
  try {
    const CheckpointHeader header = read_checkpoint_header(options.output);
    const JsonFile config = JsonFile::parse(header.config_json, options.output);
    if (config.root().has("import")) {
      found = config.root().at("import").at("made_from").as_string();
    }
  } catch (const Error& error) {
    if (options.overwrite) return false;
    throw Error(ErrorKind::kConfig,
                cat(options.output, ": exists and is not ours to replace: ", error.what()),
                "choose another --output");
  }
  if (found == made_from) return true;
  if (options.overwrite) return false;
  if (found.empty()) {
    throw Error(ErrorKind::kConfig, cat(options.output, ": exists and was trained, not imported"),
                "choose another --output");
  }
  throw Error(
      ErrorKind::kConfig,
      cat(options.output, ": exists and was imported with other weights, categories or options"),
      "choose another --output, or give --overwrite");
}

std::string summary(const ImportOptions& options, const Architecture& architecture,
                    const ModelConfig& config) {
  std::string text = cat(options.output, ": ", config.backbone);
  if (architecture.backbone_only) {
    return cat(text, " backbone; pyramid and heads are fresh: train with retina-train --init ",
               options.output, "\n");
  }
  return cat(text, " RetinaNet of torchvision's ",
             config.head_norm == HeadNorm::kGroup ? "v2" : "v1", " kind, ", config.class_count,
             " classes (of ", architecture.class_rows, " rows), batch norm epsilon ",
             shortest(config.norm_eps), "\n");
}

}  // namespace

std::string import_weights(const ImportOptions& options) {
  const std::string file = read_file(options.weights);
  const std::string made_from = import_json(options, xxh3(file));
  if (already_imported(options, made_from)) {
    return cat(options.output, ": already exists, imported from the same weights\n");
  }
  // What the file holds, and which of its class rows are taken.
  const FileLock lock(options.output);
  std::vector<ForeignTensor> tensors = read_tensors(file, options.weights);
  const Architecture architecture = recognise(tensors, options.weights);
  const std::string names = choose_categories(options, architecture);
  const CategoryMap categories = read_import_categories(names);
  const ClassRows classes =
      architecture.backbone_only
          ? ClassRows{.categories = categories.all()}
          : fit_class_rows(architecture.class_rows, categories, options.weights, names);
  const ModelConfig config = model_config(options, architecture, classes.categories.size());

  // The weights; what a bare backbone does not have is drawn.
  RetinaNet model(config);
  NamedTensors state = foreign_state(tensors, architecture.class_rows, classes, options.weights);
  check_variances(state, config, options.weights);
  if (architecture.backbone_only) {
    initialise(model, kFreshSeed);
    for (const auto& [name, tensor] : state_of(model)) {
      if (!name.starts_with(kBodyPrefix)) state.emplace_back(name, tensor.clone());
    }
  }
  load_state(model, state, options.weights);

  // The checkpoint, with what a second run compares.
  Checkpoint checkpoint;
  checkpoint.model = state_of(model);
  JsonWriter config_json;
  config_json.begin_object().key("model").raw(config.to_json());
  config_json.key("train").begin_object().end_object();
  config_json.key("import").begin_object();
  config_json.field("made_from", made_from);
  config_json.field("backbone_only", architecture.backbone_only);
  checkpoint.config_json = config_json.end_object().end_object().text();
  checkpoint.trainer_json = R"({"step":0,"epoch":0})";
  checkpoint.categories = classes.categories;
  midway([&] { save_checkpoint(options.output, checkpoint); });
  return summary(options, architecture, config);
}

}  // namespace retina
