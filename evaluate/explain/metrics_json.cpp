#include <array>
#include <future>
#include <initializer_list>
#include <span>

#include "evaluate/explain/explanation.h"
#include "evaluate/explain/json_fields.h"
#include "shared/evaluation/score/matching.h"
#include "shared/evaluation/score/metrics_text.h"

namespace retina {

namespace {

void write_error_split(const ErrorSplit& split, std::uint32_t detection_limit, JsonWriter& json) {
  json.begin_object();
  json.field("iou", kTideIou)
      .field("background_iou", kTideBackgroundIou)
      .field("max_detections", static_cast<std::int64_t>(detection_limit))
      .field("ap", split.ap);
  json.key("kinds").begin_array();
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    const ErrorSplit::Kind& one = split.kinds[i];
    json.begin_object().field("kind", fault_name(static_cast<FaultKind>(i)));
    json.field("count", one.count).field("ignored", one.ignored);
    json.field("ap_cost", one.ap_cost).end_object();
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
  json.list("truth_counts", confusion.truth_counts);
  json.key("cells").begin_array();
  for (const ConfusionCell& cell : confusion.cells) {
    json.begin_object().field("truth", cell.truth).field("found", cell.found);
    json.list("counts", cell.counts).list("images", cell.image_ids).end_object();
  }
  json.end_array().end_object();
}

void write_worst(const WorstImages& worst, JsonWriter& json) {
  json.begin_object();
  json.list("ap_lost", worst.ap_lost);
  json.list("confident_wrong", worst.confident_wrong);
  json.list("largest_missed", worst.largest_missed);
  json.end_object();
}

void write_suspect(const Suspect& suspect, JsonWriter& json) {
  json.begin_object().field("why", suspect_name(suspect.kind));
  json.field("image_id", suspect.image_id).field("file_name", suspect.file_name);
  write_optional(json, "annotation_id", suspect.annotation_id);
  write_optional(json, "category_id", suspect.category_id);
  write_optional(json, "found_category_id", suspect.found_category_id);
  write_optional(json, "score", suspect.score);
  json.field("iou", suspect.iou).list("bbox", suspect.bbox).end_object();
}

void write_file_names(const std::map<std::int64_t, std::string>& file_names, JsonWriter& json) {
  json.begin_object();
  for (const auto& [image_id, file_name] : file_names) json.field(cat(image_id), file_name);
  json.end_object();
}

void write_image(const ShownImage& shown, JsonWriter& json) {
  const ImageInfo& image = shown.image;
  json.begin_object().field("image_id", image.id).field("file_name", image.file_name);
  json.field("width", image.width).field("height", image.height).field("ap_lost", shown.ap_lost);
  json.key("truths").begin_array();
  for (const ShownImage::Object& one : shown.truths) {
    json.begin_object().field("id", one.id).field("category_id", one.category_id);
    json.list("bbox", one.bbox);
    json.field("crowd", one.crowd).field("missed", one.missed).end_object();
  }
  json.end_array().key("found").begin_array();
  for (const ShownImage::Found& one : shown.found) {
    json.begin_object().field("category_id", one.category_id);
    json.list("bbox", one.bbox);
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

// Writes the curves for COCO's ten IoU thresholds.
void write_curves(JsonWriter& json, const ClassMetrics& one) {
  constexpr std::size_t kThresholds = 10, kAt50 = 0, kAt75 = 5;
  const std::span all(one.precision);
  if (all.size() != kThresholds * kRecallThresholdCount) {
    for (const char* key : {"curve_50", "curve_75", "curve_mean"}) json.key(key).null();
    return;
  }
  const auto curve_at = [&](std::size_t threshold) {
    return all.subspan(threshold * kRecallThresholdCount, kRecallThresholdCount);
  };
  std::array<double, kRecallThresholdCount> mean{};
  for (std::size_t r = 0; r < mean.size(); ++r) {
    for (std::size_t t = 0; t < kThresholds; ++t) mean[r] += curve_at(t)[r];
    mean[r] /= kThresholds;
  }
  json.list("curve_50", curve_at(kAt50));
  json.list("curve_75", curve_at(kAt75));
  json.list("curve_mean", mean);
}

void write_class_explanation(const ClassExplanation& explanation, JsonWriter& json) {
  json.key("best_threshold");
  if (const auto& best = explanation.best_threshold) {
    json.begin_object().field("score", best->score).field("f1", best->f1);
    json.field("precision", best->precision).field("recall", best->recall).end_object();
  } else {
    json.null();
  }
  json.key("faults").begin_object();
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    json.field(fault_name(static_cast<FaultKind>(i)), explanation.faults[i]);
  }
  json.end_object();
}

void write_stats(const std::array<double, kCocoStatCount>& stats, std::uint32_t count_best,
                 JsonWriter& json) {
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    json.field(stat_key(i, count_best).c_str(), stats[i]);
  }
}

void write_class(const ClassMetrics& one, const ClassExplanation& explanation,
                 std::uint32_t count_best, JsonWriter& json) {
  json.begin_object().field("category_id", one.category_id).field("name", one.name);
  write_stats(one.stats, count_best, json);
  json.field("object_count", one.object_count)
      .field("crowd_count", one.crowd_count)
      .field("detection_count", one.detection_count);
  write_curves(json, one);
  write_class_explanation(explanation, json);
  json.end_object();
}

std::string numbers_json(const CocoMetrics& metrics, const Explanation& explanation) {
  JsonWriter json;
  json.begin_object();
  json.list("stats", metrics.stats);
  write_stats(metrics.stats, metrics.detection_limit, json);
  json.field("count_best", std::int64_t{metrics.detection_limit})
      .field("image_count", metrics.image_count)
      .field("object_count", metrics.object_count)
      .field("detection_count", metrics.detection_count);
  json.field("unknown_category_count", metrics.unknown_category_count);
  json.field("low_score_count", metrics.low_score_count);
  json.field("empty_box_count", metrics.empty_box_count);
  json.field("quarantined_count", metrics.quarantined_count);
  json.key("per_class").begin_array();
  for (std::size_t label = 0; label < metrics.per_class.size(); ++label) {
    write_class(metrics.per_class[label], explanation.per_class.at(label), metrics.detection_limit,
                json);
  }
  return json.end_array().end_object().pretty_text();
}

}  // namespace

std::string metrics_json(const CocoMetrics& metrics, const Explanation& explanation) {
  // Both halves take long, so they run on two threads.
  auto numbers = std::async(std::launch::async, [&] { return numbers_json(metrics, explanation); });
  const auto list = [](const auto& entries, const auto& write) {
    return [&entries, write](JsonWriter& json) {
      json.begin_array();
      for (const auto& entry : entries) write(entry, json);
      json.end_array();
    };
  };
  const auto of = [](const auto& part, const auto& write) {
    return [&part, write](JsonWriter& json) { write(part, json); };
  };
  const Calibration& calibration = explanation.calibration;
  const std::initializer_list<std::string> lines = {
      json_line("error_split",
                [&](JsonWriter& json) {
                  write_error_split(explanation.error_split, metrics.detection_limit, json);
                }),
      json_line("confusion", of(explanation.confusion, write_confusion)),
      json_line("calibration",
                [&](JsonWriter& json) { write_bins(json, calibration.bins, calibration.error); }),
      json_line("worst", of(explanation.worst, write_worst)),
      json_line("suspects", list(explanation.suspects, write_suspect)),
      json_line("images", list(explanation.shown, write_image)),
      json_line("file_names", of(explanation.file_names, write_file_names))};
  return with_lines(numbers.get(), lines);
}

}  // namespace retina
