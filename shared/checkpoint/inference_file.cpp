#include "shared/checkpoint/inference_file.h"

#include <optional>

#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checked_zip.h"
#include "shared/checkpoint/foreign/script_archive.h"
#include "shared/checkpoint/format.h"

namespace retina {
namespace {

// Versions of the header; the module's own is LibTorch's. What reads detectors alone refuses a
// classifier by its version. Part of the format; never renumber.
constexpr int kDetectorVersion = 1, kClassifierVersion = 2;

std::string header_record() {
  return cat("extra/", kInferenceHeaderFile);
}

Task read_task(const JsonView& header) {
  if (!header.has("task")) return Task::kDetection;  // only what is something else says so
  const JsonView word = header.at("task");
  const std::optional<Task> task = value_of(kTasks, word.as_string());
  if (!task)
    word.fail(
        cat("got \"", printable(word.as_string()), "\", want one of ", words_of(kTasks, ", ")));
  return *task;
}

}  // namespace

std::string InferenceHeader::to_json() const {
  JsonWriter json;
  const bool detects = task == Task::kDetection;
  json.begin_object().field("format_version", detects ? kDetectorVersion : kClassifierVersion);
  if (!detects) json.field("task", word_of(kTasks, task));
  json.field("checkpoint", hex64(checkpoint_hash));
  if (detects) {
    json.field("score_threshold", score_threshold).field("nms_threshold", nms_threshold);
    json.field("max_detections", max_detections);
  }
  json.field("config", config_json);
  write_categories(json, categories);
  return json.end_object().text();
}

InferenceHeader read_inference_header(const std::string& path) {
  return with_checked_zip(path, "inference model", [&](ZipReader& zip) {
    const JsonFile file = read_versioned_json(
        zip, header_record(), path, "an inference model of retina-convert", kClassifierVersion);
    const JsonView json = file.root();
    InferenceHeader header;
    header.task = read_task(json);
    header.config_json = json.at("config").as_string();
    header.categories = read_categories(json.at("categories"));
    header.checkpoint_hash = parse_hex64(json.at("checkpoint").as_string(), path);
    if (header.task == Task::kDetection) {
      header.score_threshold = json.at("score_threshold").as_double();
      header.nms_threshold = json.at("nms_threshold").as_double();
      header.max_detections = static_cast<int>(json.at("max_detections").as_int());
    }
    return header;
  });
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
  return with_checked_zip(path, "model", [&](ZipReader& zip) {
    if (zip.hasRecord(checkpoint_format::kIndexRecord)) return ModelFileKind::kCheckpoint;
    if (zip.hasRecord(header_record())) return ModelFileKind::kInference;
    throw Error(ErrorKind::kData, cat(path, ": neither a checkpoint nor an inference model"));
  });
}

}  // namespace retina
