#include "shared/model/config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "shared/anchor/anchor.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/image/resize.h"
#include "shared/model/network_shape.h"

namespace retina {
namespace {

// Least anchor size: below it, a base anchor of ratio 2 rounds to zero width.
constexpr double kMinAnchorPx = 2;
// Limit of a side, far above any photograph; keeps products of sides inside 32 bits.
constexpr int kMaxSidePx = 16384;
// Least side for cifar-cnn: below it, nothing is left after the second pool.
constexpr int kMinCifarSidePx = 10;

[[noreturn]] void refuse(const std::string& field, const std::string& problem) {
  throw Error(ErrorKind::kUsage, cat("model ", field, ": ", problem));
}

// Throws unless `value` is in low .. high.
template <class T>
void check_range(const char* field, T value, T low, T high) {
  if (value >= low && value <= high) return;
  throw Error(ErrorKind::kUsage,
              cat(field, ": out of range (got ", value, ", want ", low, " to ", high, ")"));
}

template <class T>
T choose(const std::string& field, const Choices<T>& choices, const std::string& word) {
  const std::optional<T> value = value_of(choices, word);
  if (!value) {
    refuse(field,
           cat("unknown value (got \"", word, "\", want one of ", words_of(choices, ", "), ")"));
  }
  return *value;
}

std::array<double, 3> read_channels(const JsonView& json) {
  if (json.size() != 3) json.fail(cat("got ", json.size(), " numbers, want 3"));
  return {json.at(std::size_t{0}).as_double(), json.at(1).as_double(), json.at(2).as_double()};
}

int read_int(const JsonView& json) {
  const std::int64_t value = json.as_int();
  if (value != static_cast<int>(value)) json.fail(cat("got ", value, ", want a 32-bit integer"));
  return static_cast<int>(value);
}

void validate_anchors(const ModelConfig& config) {
  if (config.anchor_sizes.size() != kLevelCount) {
    refuse("anchor_sizes", cat("one for each of P3 to P7 is needed (got ",
                               config.anchor_sizes.size(), ", want ", kLevelCount, ")"));
  }
  for (const double size : config.anchor_sizes) {
    if (!(size >= kMinAnchorPx && size <= kMaxSidePx)) {
      refuse("anchor_sizes",
             cat("out of range (got ", size, ", want ", kMinAnchorPx, " to ", kMaxSidePx, " px)"));
    }
  }
  if (!(config.anchor_offset >= 0 && config.anchor_offset < 1)) {
    refuse("anchor_offset",
           cat("out of range (got ", config.anchor_offset, ", want 0 to below 1)"));
  }
  const int per_location = config.anchors_per_location;
  if (per_location != kAnchorsPerCell && per_location != 1) {
    refuse("anchors_per_location",
           cat("out of range (got ", per_location, ", want ", kAnchorsPerCell, " or 1)"));
  }
}

void validate_size(const ModelConfig& config) {
  if (!is_pyramid_width(config.fpn_channels)) {
    refuse("fpn_channels",
           cat("out of range (got ", config.fpn_channels, ", want ", kLeastPyramidChannels, " to ",
               kMostPyramidChannels, " in steps of ", kHeadGroups, ")"));
  }
  check_range("model head_convs", config.head_convs, 1, kMostHeadConvs);
}

void write_detector(JsonWriter& json, const ModelConfig& config) {
  json.field("head_norm", word_of(kHeadNorms, config.head_norm));
  json.field("p6_from_c5", config.p6_from_c5);
  json.list("anchor_sizes", config.anchor_sizes);
  json.field("anchor_offset", config.anchor_offset);
  json.field("anchors_per_location", config.anchors_per_location);
  json.field("keep_ratio", config.keep_ratio);
  json.field("fpn_channels", config.fpn_channels);
  json.field("head_convs", config.head_convs);
}

void read_detector(const JsonView& json, ModelConfig& config) {
  config.p6_from_c5 = json.at("p6_from_c5").as_bool();
  config.anchor_sizes.clear();
  const JsonView sizes = json.at("anchor_sizes");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    config.anchor_sizes.push_back(sizes.at(i).as_double());
  }
  config.anchor_offset = json.at("anchor_offset").as_double();
  config.anchors_per_location = read_int(json.at("anchors_per_location"));
  config.keep_ratio = json.at("keep_ratio").as_bool();
  config.fpn_channels = read_int(json.at("fpn_channels"));
  config.head_convs = read_int(json.at("head_convs"));
  config.head_norm = choose("head_norm", kHeadNorms, json.at("head_norm").as_string());
}

}  // namespace

InputSides default_sides(Task task, const std::string& backbone) {
  if (task == Task::kDetection) return {};
  return backbone == kCifarCnn ? InputSides{32, 32} : InputSides{224, 256};
}

void ModelConfig::validate() const {
  const bool detects = task == Task::kDetection;
  choose("backbone", plain_choices(detects ? backbone_names() : classifier_names()), backbone);
  check_range("model class_count", class_count, 1, 100000);
  if (!(norm_eps >= 0 && norm_eps < 1)) {
    refuse("norm_eps", cat("out of range (got ", norm_eps, ", want 0 to 1)"));
  }
  if (detects) {
    validate_anchors(*this);
    validate_size(*this);
  }
  if (min_side_px < 1 || max_side_px > kMaxSidePx) {
    refuse("min_side_px, max_side_px", cat("out of range (got ", min_side_px, " and ", max_side_px,
                                           ", want 1 to ", kMaxSidePx, ")"));
  }
  if (max_side_px < min_side_px) {
    refuse("max_side_px",
           cat("is below min_side_px (got ", max_side_px, " and ", min_side_px, ")"));
  }
  if (backbone == kCifarCnn && min_side_px < kMinCifarSidePx) {
    refuse("min_side_px", cat("too small for ", kCifarCnn, " (got ", min_side_px,
                              ", want at least ", kMinCifarSidePx, ")"));
  }
  for (std::size_t channel = 0; channel < 3; ++channel) {
    if (!std::isfinite(image_mean[channel])) refuse("image_mean", "is not finite");
    if (!(image_std[channel] > 0) || !std::isfinite(image_std[channel])) {
      refuse("image_std", cat("out of range (got ", image_std[channel], ", want above 0)"));
    }
  }
}

std::string ModelConfig::to_json() const {
  JsonWriter json;
  json.begin_object();
  const bool detects = task == Task::kDetection;
  if (!detects) json.field("task", word_of(kTasks, task));
  json.field("backbone", backbone);
  json.field("class_count", class_count);
  json.field("norm", word_of(kNorms, norm));
  json.field("norm_eps", norm_eps);
  if (detects) write_detector(json, *this);
  json.field("min_side_px", min_side_px);
  json.field("max_side_px", max_side_px);
  json.list("image_mean", image_mean);
  json.list("image_std", image_std);
  json.end_object();
  return json.text();
}

ModelConfig ModelConfig::from_json(const JsonView& json) {
  ModelConfig config;
  config.backbone = json.at("backbone").as_string();
  config.class_count = read_int(json.at("class_count"));
  config.norm_eps = json.at("norm_eps").as_double();
  config.min_side_px = read_int(json.at("min_side_px"));
  config.max_side_px = read_int(json.at("max_side_px"));
  config.image_mean = read_channels(json.at("image_mean"));
  config.image_std = read_channels(json.at("image_std"));
  const std::string norm = json.at("norm").as_string();
  try {
    if (json.has("task")) config.task = choose("task", kTasks, json.at("task").as_string());
    config.norm = choose("norm", kNorms, norm);
    if (config.task == Task::kDetection) read_detector(json, config);
    config.validate();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    json.fail(error.what());
  }
  return config;
}

void PostprocessOptions::validate() const {
  // Far more than the candidates of five levels; each detection takes room in every answer.
  constexpr int kMost = 100'000;
  check_range("score threshold", score_threshold, 0.0, 1.0);
  check_range("NMS threshold", nms_threshold, 0.0, 1.0);
  check_range("candidates per level", candidates_per_level, 1, kMost);
  check_range("max detections", max_detections, 1, kMost);
}

ModelConfig model_config_of(const std::string& config_json, const std::string& path) {
  const JsonFile config = JsonFile::parse(config_json, path + ": config");
  return ModelConfig::from_json(config.root().at("model"));
}

FrameRule ModelConfig::frame() const {
  const Framing framing = task == Task::kClassification ? Framing::kSquare
                          : keep_ratio                  ? Framing::kWhole
                                                        : Framing::kStretched;
  return {framing, min_side_px, max_side_px};
}

Normalisation ModelConfig::normalisation() const {
  Normalisation result;
  std::copy(image_mean.begin(), image_mean.end(), result.mean.begin());
  std::copy(image_std.begin(), image_std.end(), result.std.begin());
  return result;
}

PostprocessOptions PostprocessChoice::postprocess() const {
  PostprocessOptions result;
  result.score_threshold = score_threshold.value_or(result.score_threshold);
  result.nms_threshold = nms_threshold.value_or(result.nms_threshold);
  result.max_detections = max_detections.value_or(result.max_detections);
  return result;
}

}  // namespace retina
