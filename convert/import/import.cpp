#include "convert/import/import.h"

#include <filesystem>
#include <utility>

#include "convert/import/foreign_network.h"
#include "convert/import/pth_file.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/onnx/onnx_file.h"

namespace retina {
namespace {

std::vector<ForeignTensor> read_tensors(std::string_view file, const std::string& subject) {
  if (is_onnx_file(subject)) {
    read_inference_header(file, subject);  // throws unless it is an inference model of ours
    throw Error(ErrorKind::kData,
                cat(subject, ": is an inference model of retina-convert, not weights to import"),
                "give the checkpoint that it was made from to retina-train --init");
  }
  ForeignWeights found = parse_pth(file, subject);
  if (!found.average.empty()) {
    log_info(subject, ": holds weights (\"", found.weights, "\") and their moving average (\"",
             found.average, "\"): taking the average, which its training validated");
  }
  return std::move(found.tensors);
}

// Returns the identity of an import, which a second run compares; kept in the checkpoint's config
// as "import".
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

std::string file_name_of(const std::string& path) {
  return as_utf8(std::filesystem::path(path).filename().string());
}

// Returns true when the output already exists and was made from the same inputs; throws when it was
// made from others.
bool already_imported(const ImportOptions& options, const std::string& made_from) {
  if (!has_file(options.output, "--output")) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(options.output, options.weights, ignored)) {
    throw Error(ErrorKind::kConfig, cat(options.output, ": is the imported file itself"),
                "choose another --output");
  }
  // The output's own record says whether it is an import, and of which inputs.
  std::string found;
  try {
    const CheckpointHeader header = read_checkpoint_header(options.output);
    const JsonFile config = JsonFile::parse(header.config_json, options.output);
    if (config.root().has("import")) {
      found = config.root().at("import").at("made_from").as_string();
    }
  } catch (const Error& error) {
    throw not_ours_to_replace(options.output, error.what(), "--output");
  }
  if (found == made_from) return true;
  if (found.empty()) {
    throw Error(ErrorKind::kConfig, cat(options.output, ": exists and was trained, not imported"),
                "choose another --output");
  }
  if (options.overwrite) return false;
  throw Error(
      ErrorKind::kConfig,
      cat(options.output, ": exists and was imported with other weights, categories or options"),
      "choose another --output, or give --overwrite");
}

}  // namespace

std::string import_weights(const ImportOptions& options) {
  const std::string file = read_file(options.weights);
  const std::string made_from = import_json(options, xxh3(file));
  if (already_imported(options, made_from)) {
    return cat(options.output, ": already exists, imported from the same weights\n");
  }
  make_folder_of(options.output);
  const FileLock lock(options.output);
  std::vector<ForeignTensor> tensors = read_tensors(file, options.weights);
  const ForeignNetwork network = options.config.task == Task::kDetection
                                     ? detector_of(std::move(tensors), options)
                                     : classifier_of(std::move(tensors), options);
  // The checkpoint, with what a second run compares.
  Checkpoint checkpoint;
  checkpoint.model = network.model;
  JsonWriter config_json;
  config_json.begin_object().key("model").raw(network.config.to_json());
  config_json.key("train").begin_object().end_object();
  config_json.key("import").begin_object();
  config_json.field("made_from", made_from);
  config_json.field("backbone_only", network.backbone_only);
  config_json.field("source", file_name_of(options.weights)).field("holds", network.summary);
  checkpoint.config_json = config_json.end_object().end_object().text();
  checkpoint.trainer_json = R"({"step":0,"epoch":0})";
  checkpoint.categories = network.categories;
  as_io_error([&] { save_checkpoint(options.output, checkpoint); });
  return cat(options.output, ": ", network.summary,
             network.backbone_only ? cat(": train with retina-train --init ", options.output) : "",
             "\n");
}

}  // namespace retina
