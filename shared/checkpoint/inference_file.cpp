#include "shared/checkpoint/inference_file.h"

#include "shared/base/hash.h"
#include "shared/checkpoint/checked_zip.h"
#include "shared/checkpoint/foreign/script_archive.h"
#include "shared/checkpoint/format.h"

namespace retina {
namespace {

constexpr int kInferenceVersion = 1;  // of the header; the module's own version is LibTorch's

std::string header_record() {
  return cat("extra/", kInferenceHeaderFile);
}

}  // namespace

std::string InferenceHeader::to_json() const {
  JsonWriter json;
  json.begin_object().field("format_version", kInferenceVersion);
  json.field("checkpoint", hex64(checkpoint_hash));
  json.field("score_threshold", score_threshold).field("nms_threshold", nms_threshold);
  json.field("max_detections", max_detections).field("config", config_json);
  write_categories(json, categories);
  return json.end_object().text();
}

InferenceHeader read_inference_header(const std::string& path) {
  return with_checked_zip(path, "inference model", [&](ZipReader& zip) {
    const JsonFile file = read_versioned_json(
        zip, header_record(), path, "an inference model of retina-convert", kInferenceVersion);
    const JsonView json = file.root();
    return InferenceHeader{.config_json = json.at("config").as_string(),
                           .categories = read_categories(json.at("categories")),
                           .checkpoint_hash = parse_hex64(json.at("checkpoint").as_string(), path),
                           .score_threshold = json.at("score_threshold").as_double(),
                           .nms_threshold = json.at("nms_threshold").as_double(),
                           .max_detections = static_cast<int>(json.at("max_detections").as_int())};
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
