#include "shared/checkpoint/inference_file.h"

#include <optional>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checked_zip.h"
#include "shared/checkpoint/foreign/script_archive.h"
#include "shared/checkpoint/format.h"
#include "shared/onnx/onnx_file.h"

namespace retina {
namespace {

// Versions of the header; the module's own is LibTorch's. What reads detectors alone refuses a
// classifier by its version. Part of the format; never renumber.
constexpr int kDetectorVersion = 1, kClassifierVersion = 2;

Task read_task(const JsonView& header) {
  if (!header.has("task")) return Task::kDetection;  // only what is something else says so
  const JsonView word = header.at("task");
  const std::optional<Task> task = value_of(kTasks, word.as_string());
  if (!task)
    word.fail(
        cat("got \"", printable(word.as_string()), "\", want one of ", words_of(kTasks, ", ")));
  return *task;
}

void write_onnx_form(JsonWriter& json, const OnnxForm& form) {
  json.key("onnx").begin_object().field("weights", word_of(kWeightTypes, form.weights));
  json.field("postprocess", form.postprocess);
  if (form.picture) json.field("height", form.picture->height).field("width", form.picture->width);
  json.end_object();
}

OnnxForm read_onnx_form(const JsonView& json) {
  OnnxForm form;
  const JsonView word = json.at("weights");
  const std::optional<WeightType> weights = value_of(kWeightTypes, word.as_string());
  if (!weights)
    word.fail(cat("got \"", printable(word.as_string()), "\", want one of ",
                  words_of(kWeightTypes, ", ")));
  form.weights = *weights;
  form.postprocess = json.at("postprocess").as_bool();
  if (json.has("height")) {
    form.picture = {.height = static_cast<int>(json.at("height").as_int()),
                    .width = static_cast<int>(json.at("width").as_int())};
  }
  return form;
}

InferenceHeader header_of(const JsonView& json, const std::string& path) {
  InferenceHeader header;
  header.task = read_task(json);
  header.config_json = json.at("config").as_string();
  header.categories = read_categories(json.at("categories"));
  header.checkpoint_hash = parse_hex64(json.at("checkpoint").as_string(), path);
  if (json.has("onnx")) header.onnx = read_onnx_form(json.at("onnx"));
  if (header.task == Task::kDetection) {
    header.score_threshold = json.at("score_threshold").as_double();
    header.nms_threshold = json.at("nms_threshold").as_double();
    header.max_detections = static_cast<int>(json.at("max_detections").as_int());
  }
  return header;
}

}  // namespace

std::string inference_header_record() {
  return cat("extra/", kInferenceHeaderFile);
}

std::string InferenceHeader::to_json() const {
  JsonWriter json;
  const bool detects = task == Task::kDetection;
  json.begin_object().field("format_version", detects ? kDetectorVersion : kClassifierVersion);
  if (!detects) json.field("task", word_of(kTasks, task));
  json.field("checkpoint", hex64(checkpoint_hash));
  if (onnx) write_onnx_form(json, *onnx);
  if (detects) {
    json.field("score_threshold", score_threshold).field("nms_threshold", nms_threshold);
    json.field("max_detections", max_detections);
  }
  json.field("config", config_json);
  write_categories(json, categories);
  return json.end_object().text();
}

InferenceHeader read_inference_header(const std::string& path) {
  if (is_onnx_file(path)) {
    check_seal(path, "inference model");
    return read_onnx_header(read_file(path), path);
  }
  return with_checked_zip(path, "inference model", [&](ZipReader& zip) {
    const JsonFile file =
        read_versioned_json(zip, inference_header_record(), path,
                            "an inference model of retina-convert", kClassifierVersion);
    return header_of(file.root(), path);
  });
}

InferenceHeader read_onnx_header(std::string_view model, const std::string& path) {
  return header_of(parse_versioned_json(onnx_metadata(model, kInferenceHeaderFile, path), path,
                                        kClassifierVersion)
                       .root(),
                   path);
}

void check_inference_file(const std::string& path) {
  with_checked_zip(path, "inference model", [&](ZipReader& zip) {
    const auto read = [&](std::string_view name) {
      const std::string record(name);
      std::string bytes(zip.getRecordSize(record), '\0');
      zip.getRecord(record, bytes.data(), bytes.size());
      return bytes;
    };
    check_script_archive(open_records(path), read, path);
  });
}

ModelFileKind model_file_kind(const std::string& path) {
  if (is_onnx_file(path)) {
    check_seal(path, "model");
    return ModelFileKind::kInference;
  }
  return with_checked_zip(path, "model", [&](ZipReader& zip) {
    if (zip.hasRecord(checkpoint_format::kIndexRecord)) return ModelFileKind::kCheckpoint;
    if (zip.hasRecord(inference_header_record())) return ModelFileKind::kInference;
    throw Error(ErrorKind::kData, cat(path, ": neither a checkpoint nor an inference model"));
  });
}

}  // namespace retina
