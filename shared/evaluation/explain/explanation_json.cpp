#include "shared/evaluation/explain/explanation_json.h"

#include "shared/base/cat.h"
#include "shared/evaluation/score/optional_json.h"

namespace retina {

namespace {

constexpr std::array<FaultKind, kFaultKindCount> kFaultKinds{
    FaultKind::kClassification, FaultKind::kLocalisation, FaultKind::kBoth,
    FaultKind::kDuplicate,      FaultKind::kBackground,   FaultKind::kMissed};

template <class List>
void write_list(JsonWriter& json, const char* key, const List& list) {
  json.key(key).begin_array();
  for (const auto& value : list) json.value(value);
  json.end_array();
}

void write_error_split(const ErrorSplit& split, JsonWriter& json) {
  json.begin_object();
  json.field("iou", kTideIou)
      .field("background_iou", kTideBackgroundIou)
      .field("max_detections", static_cast<std::int64_t>(kTideMaxDetections))
      .field("ap", split.ap);
  json.key("kinds").begin_array();
  for (const FaultKind kind : kFaultKinds) {
    const ErrorSplit::Kind& one = split.kinds[static_cast<std::size_t>(kind)];
    json.begin_object()
        .field("kind", fault_name(kind))
        .field("count", one.count)
        .field("ignored", one.ignored)
        .field("ap_cost", one.ap_cost)
        .end_object();
  }
  json.end_array();
  json.field("false_positive_cost", split.false_positive_cost)
      .field("false_negative_cost", split.false_negative_cost)
      .end_object();
}

void write_confusion(const Confusion& confusion, JsonWriter& json) {
  json.begin_object().field("iou", kExplainedIou);
  json.key("scores").begin_array();
  for (std::size_t i = 0; i < kConfusionScoreCount; ++i) json.value(confusion_score(i));
  json.end_array().field("chosen", static_cast<std::int64_t>(confusion.chosen));
  write_list(json, "truth_counts", confusion.truth_counts);
  json.key("cells").begin_array();
  for (const ConfusionCell& cell : confusion.cells) {
    json.begin_object().field("truth", cell.truth).field("found", cell.found);
    write_list(json, "counts", cell.counts);
    write_list(json, "images", cell.image_ids);
    json.end_object();
  }
  json.end_array().end_object();
}

void write_calibration(const Calibration& calibration, JsonWriter& json) {
  json.begin_object().key("bins").begin_array();
  for (std::size_t i = 0; i < kCalibrationBinCount; ++i) {
    const CalibrationBin& bin = calibration.bins[i];
    json.begin_object()
        .field("low", static_cast<double>(i) / kCalibrationBinCount)
        .field("high", static_cast<double>(i + 1) / kCalibrationBinCount)
        .field("count", bin.count)
        .field("mean_score", bin.mean_score())
        .field("precision", bin.precision())
        .end_object();
  }
  json.end_array().field("error", calibration.error).end_object();
}

void write_worst(const WorstImages& worst, JsonWriter& json) {
  json.begin_object();
  write_list(json, "ap_lost", worst.ap_lost);
  write_list(json, "confident_wrong", worst.confident_wrong);
  write_list(json, "largest_missed", worst.largest_missed);
  json.end_object();
}

void write_suspect(const Suspect& suspect, JsonWriter& json) {
  json.begin_object()
      .field("why", suspect_name(suspect.kind))
      .field("image_id", suspect.image_id)
      .field("file_name", suspect.file_name);
  write_optional(json, "annotation_id", suspect.annotation_id);
  write_optional(json, "category_id", suspect.category_id);
  write_optional(json, "found_category_id", suspect.found_category_id);
  write_optional(json, "score", suspect.score);
  json.field("iou", suspect.iou);
  write_list(json, "bbox", suspect.bbox);
  json.end_object();
}

void write_file_names(const std::map<std::int64_t, std::string>& file_names, JsonWriter& json) {
  json.begin_object();
  for (const auto& [image_id, file_name] : file_names) json.field(cat(image_id), file_name);
  json.end_object();
}

void write_image(const ShownImage& shown, JsonWriter& json) {
  json.begin_object()
      .field("image_id", shown.image.id)
      .field("file_name", shown.image.file_name)
      .field("width", shown.image.width)
      .field("height", shown.image.height)
      .field("ap_lost", shown.ap_lost);
  json.key("truths").begin_array();
  for (const ShownImage::Object& one : shown.truths) {
    json.begin_object().field("id", one.id).field("category_id", one.category_id);
    write_list(json, "bbox", one.bbox);
    json.field("crowd", one.crowd).field("missed", one.missed).end_object();
  }
  json.end_array().key("found").begin_array();
  for (const ShownImage::Found& one : shown.found) {
    json.begin_object().field("category_id", one.category_id);
    write_list(json, "bbox", one.bbox);
    json.field("score", one.score).key("fault");
    if (one.outcome.hit) {
      json.null();
    } else {
      json.value(one.outcome.ignored ? "ignored" : fault_name(one.outcome.fault));
    }
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

void write_class_explanation(const ClassExplanation& explanation, JsonWriter& json) {
  json.key("best_threshold");
  if (const auto& best = explanation.best_threshold) {
    json.begin_object()
        .field("score", best->score)
        .field("f1", best->f1)
        .field("precision", best->precision)
        .field("recall", best->recall)
        .end_object();
  } else {
    json.null();
  }
  json.key("faults").begin_object();
  for (const FaultKind kind : kFaultKinds) {
    json.field(fault_name(kind), explanation.faults[static_cast<std::size_t>(kind)]);
  }
  json.end_object();
}

std::string explanation_lines(const Explanation& explanation) {
  const auto line = [](const char* key, const auto& write) {
    JsonWriter json;
    write(json);
    return cat("  \"", key, "\": ", json.text());
  };
  const auto list = [](JsonWriter& json, const auto& entries, const auto& write) {
    json.begin_array();
    for (const auto& entry : entries) write(entry, json);
    json.end_array();
  };
  return cat(
      line("error_split", [&](JsonWriter& j) { write_error_split(explanation.error_split, j); }),
      ",\n", line("confusion", [&](JsonWriter& j) { write_confusion(explanation.confusion, j); }),
      ",\n",
      line("calibration", [&](JsonWriter& j) { write_calibration(explanation.calibration, j); }),
      ",\n", line("worst", [&](JsonWriter& j) { write_worst(explanation.worst, j); }), ",\n",
      line("suspects", [&](JsonWriter& j) { list(j, explanation.suspects, write_suspect); }), ",\n",
      line("images", [&](JsonWriter& j) { list(j, explanation.shown, write_image); }), ",\n",
      line("file_names", [&](JsonWriter& j) { write_file_names(explanation.file_names, j); }));
}

}  // namespace retina
