#include "shared/onnx/inference_header.h"

#include <limits>
#include <optional>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

// Part of the format; never renumber.
constexpr int kVersion = 3;
// Limit of a known image size: those of --onnx-static.
constexpr std::int64_t kMostSidePx = 16384;

template <class T>
T read_word(const JsonView& word, const Choices<T>& choices) {
  const std::optional<T> value = value_of(choices, word.as_string());
  if (!value) {
    word.fail(
        cat("got \"", printable(word.as_string()), "\", want one of ", words_of(choices, ", ")));
  }
  return *value;
}

int read_int(const JsonView& json, std::int64_t most) {
  const std::int64_t number = json.as_int();
  if (number < 1 || number > most) json.fail(cat("got ", number, ", want 1 to ", most));
  return static_cast<int>(number);
}

void write_form(JsonWriter& json, const OnnxForm& form) {
  json.key("onnx").begin_object().field("weights", word_of(kWeightTypes, form.weights));
  json.field("postprocess", form.postprocess);
  if (form.image) json.field("height", form.image->height).field("width", form.image->width);
  json.end_object();
}

OnnxForm read_form(const JsonView& json) {
  OnnxForm form{.weights = read_word(json.at("weights"), kWeightTypes),
                .postprocess = json.at("postprocess").as_bool()};
  if (json.has("height")) {
    form.image = {.height = read_int(json.at("height"), kMostSidePx),
                  .width = read_int(json.at("width"), kMostSidePx)};
  }
  return form;
}

}  // namespace

std::string InferenceHeader::to_json() const {
  JsonWriter json;
  const bool detects = task == Task::kDetection;
  json.begin_object().field("format_version", kVersion).field("task", word_of(kTasks, task));
  json.field("checkpoint", hex64(checkpoint_hash));
  write_form(json, form);
  if (detects) {
    json.field("score_threshold", score_threshold).field("nms_threshold", nms_threshold);
    json.field("max_detections", max_detections);
  }
  json.field("config", config_json);
  write_categories(json, categories);
  return json.end_object().text();
}

InferenceHeader parse_inference_header(std::string_view json, const std::string& path) {
  const JsonFile file = parse_versioned_json(json, path, kVersion);
  const JsonView root = file.root();
  InferenceHeader header;
  header.task = read_word(root.at("task"), kTasks);
  header.config_json = root.at("config").as_string();
  header.categories = read_categories(root.at("categories"));
  header.checkpoint_hash = parse_hex64(root.at("checkpoint").as_string(), path);
  header.form = read_form(root.at("onnx"));
  if (header.task == Task::kDetection) {
    header.score_threshold = root.at("score_threshold").as_double();
    header.nms_threshold = root.at("nms_threshold").as_double();
    header.max_detections = read_int(root.at("max_detections"), std::numeric_limits<int>::max());
  }
  return header;
}

}  // namespace retina
