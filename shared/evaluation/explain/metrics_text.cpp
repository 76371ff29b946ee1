#include "shared/evaluation/explain/metrics_text.h"

#include <algorithm>
#include <array>
#include <future>
#include <span>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/evaluation/explain/explanation_json.h"
#include "shared/evaluation/score/text_table.h"

namespace retina {

namespace {

struct SummaryLine {
  const char* title;
  const char* kind;
  const char* iou;
  const char* area;
  int limit;
};

// In the order of CocoStat.
constexpr std::array<SummaryLine, kCocoStatCount> kSummaryLines{{
    {"Average Precision", "(AP)", "0.50:0.95", "all", 100},
    {"Average Precision", "(AP)", "0.50", "all", 100},
    {"Average Precision", "(AP)", "0.75", "all", 100},
    {"Average Precision", "(AP)", "0.50:0.95", "small", 100},
    {"Average Precision", "(AP)", "0.50:0.95", "medium", 100},
    {"Average Precision", "(AP)", "0.50:0.95", "large", 100},
    {"Average Recall", "(AR)", "0.50:0.95", "all", 1},
    {"Average Recall", "(AR)", "0.50:0.95", "all", 10},
    {"Average Recall", "(AR)", "0.50:0.95", "all", 100},
    {"Average Recall", "(AR)", "0.50:0.95", "small", 100},
    {"Average Recall", "(AR)", "0.50:0.95", "medium", 100},
    {"Average Recall", "(AR)", "0.50:0.95", "large", 100},
}};

// Names of the columns in the class table and of the keys in metrics.json, in CocoStat's order.
constexpr std::array<const char*, kCocoStatCount> kStatKeys{
    "AP",  "AP50", "AP75",  "AP_small", "AP_medium", "AP_large",
    "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"};

std::string padded_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string padded_right(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

void write_curve(JsonWriter& json, const char* key, std::span<const double> precisions) {
  json.key(key);
  if (precisions.empty()) {
    json.null();
    return;
  }
  json.begin_array();
  for (const double value : precisions) json.value(value);
  json.end_array();
}

// Of COCO's ten IoU thresholds.
void write_curves(JsonWriter& json, const ClassMetrics& one) {
  constexpr std::size_t kThresholds = 10, kAt50 = 0, kAt75 = 5;
  const std::span all(one.precision);
  if (all.size() != kThresholds * kRecallThresholdCount) {
    for (const char* key : {"curve_50", "curve_75", "curve_mean"}) write_curve(json, key, {});
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
  write_curve(json, "curve_50", curve_at(kAt50));
  write_curve(json, "curve_75", curve_at(kAt75));
  write_curve(json, "curve_mean", mean);
}

std::string metrics_text(const CocoMetrics& metrics, const Explanation* explanation) {
  std::future<std::string> lines;
  if (explanation != nullptr) {
    lines = std::async(std::launch::async, [&] { return explanation_lines(*explanation); });
  }
  JsonWriter json;
  json.begin_object().key("stats").begin_array();
  for (const double value : metrics.stats) json.value(value);
  json.end_array();
  for (std::size_t i = 0; i < kCocoStatCount; ++i) json.field(kStatKeys[i], metrics.stats[i]);
  json.field("image_count", metrics.image_count)
      .field("object_count", metrics.object_count)
      .field("detection_count", metrics.detection_count)
      .field("unknown_category_count", metrics.unknown_category_count)
      .field("low_score_count", metrics.low_score_count)
      .field("empty_box_count", metrics.empty_box_count)
      .field("quarantined_count", metrics.quarantined_count);
  json.key("per_class").begin_array();
  for (std::size_t label = 0; label < metrics.per_class.size(); ++label) {
    const ClassMetrics& one = metrics.per_class[label];
    json.begin_object().field("category_id", one.category_id).field("name", one.name);
    for (std::size_t i = 0; i < kCocoStatCount; ++i) json.field(kStatKeys[i], one.stats[i]);
    json.field("object_count", one.object_count)
        .field("crowd_count", one.crowd_count)
        .field("detection_count", one.detection_count);
    if (explanation != nullptr) {
      write_curves(json, one);
      write_class_explanation(explanation->per_class.at(label), json);
    }
    json.end_object();
  }
  json.end_array().end_object();
  std::string text = json.pretty_text();
  if (explanation != nullptr) {
    // Indented, the explanation would be three times as long.
    text.erase(text.rfind("\n}"));
    text += cat(",\n", lines.get(), "\n}\n");
  }
  return text;
}

// Whether the results seem to have labels from 0 in the place of category ids.
bool are_labels(const CocoMetrics& metrics) {
  return metrics.unknown_category_ids.front() == 0 && !metrics.per_class.empty() &&
         metrics.per_class.front().category_id > 0;
}

std::string unknown_categories_text(const CocoMetrics& metrics) {
  constexpr std::size_t kShown = 5;
  const std::vector<std::int64_t>& ids = metrics.unknown_category_ids;
  std::string list;
  for (std::size_t i = 0; i < std::min(ids.size(), kShown); ++i) {
    list += cat(i == 0 ? "" : ", ", ids[i]);
  }
  if (ids.size() > kShown) list += cat(" and ", ids.size() - kShown, " more");
  const auto count = metrics.unknown_category_count;
  std::string text = cat(count, count == 1 ? " detection has" : " detections have",
                         " a category that is not in the annotations (", list, "): ignored");
  if (are_labels(metrics)) {
    text += cat("; category 0 looks like labels counted from 0: results want the annotations' ",
                "category ids, which begin with ", metrics.per_class.front().category_id);
  }
  return text;
}

}  // namespace

const char* stat_key(std::size_t stat) {
  return kStatKeys.at(stat);
}

std::string metric_text(double value) {
  return value < 0 ? "-" : fixed(value, 3);
}

std::string coco_summary_text(const CocoMetrics& metrics) {
  std::string text;
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    const SummaryLine& line = kSummaryLines[i];
    text += cat(" ", padded_right(line.title, 18), " ", line.kind,
                " @[ IoU=", padded_right(line.iou, 9), " | area=", padded_left(line.area, 6),
                " | maxDets=", padded_left(cat(line.limit), 3), " ] = ", fixed(metrics.stats[i], 3),
                "\n");
  }
  return text;
}

std::string no_truth_text(const CocoMetrics& metrics) {
  if (metrics.object_count > 0) return "";
  return cat("no ground truth: ",
             metrics.image_count == 1
                 ? "the only image has no object"
                 : cat("none of the ", metrics.image_count, " images has an object"),
             " to find (crowd regions do not count), so there is no AP");
}

std::string class_table_text(const CocoMetrics& metrics) {
  constexpr std::array<std::size_t, 7> kColumns{kAp,       kAp50,    kAp75, kApSmall,
                                                kApMedium, kApLarge, kAr100};
  constexpr std::array<const char*, 7> kTitles{"AP",     "AP50",  "AP75", "small",
                                               "medium", "large", "AR100"};
  std::size_t name_width = 5;
  for (const ClassMetrics& one : metrics.per_class) {
    name_width = std::max(name_width, character_count(escaped(one.name)));
  }
  std::string text = padded_right("class", name_width);
  for (const char* title : kTitles) text += padded_left(title, 8);
  text += padded_left("objects", 10) + padded_left("found", 10) + "\n";
  for (const ClassMetrics& one : metrics.per_class) {
    const std::string name = escaped(one.name);
    text += name + std::string(name_width - character_count(name), ' ');
    for (const std::size_t column : kColumns)
      text += padded_left(metric_text(one.stats[column]), 8);
    text += padded_left(cat(one.object_count), 10) + padded_left(cat(one.detection_count), 10);
    text += "\n";
  }
  return text;
}

std::string oddities_text(const CocoMetrics& metrics) {
  std::vector<std::string> sentences;
  if (metrics.object_count == 0) sentences.push_back(no_truth_text(metrics));
  if (metrics.has_annotation_0) {
    sentences.push_back(
        "an annotation has id 0, which COCO's evaluation (pycocotools) takes for \"no match\": its "
        "object is never found, here neither; number annotations from 1");
  }
  if (const auto count = metrics.quarantined_count; count > 0) {
    sentences.push_back(cat(count, count == 1 ? " image of the set is" : " images of the set are",
                            " quarantined (quarantine.jsonl): not in these numbers"));
  }
  if (metrics.unknown_category_count > 0) sentences.push_back(unknown_categories_text(metrics));
  if (const auto count = metrics.low_score_count; count > 0) {
    sentences.push_back(cat(count, count == 1 ? " detection has" : " detections have",
                            " a score of 0 or less: ranked like the others"));
  }
  if (metrics.detection_count == 0 && metrics.object_count > 0) {
    sentences.push_back("there are no detections at all: every object counts as missed");
  }
  if (const auto count = metrics.high_score_count; count > 0) {
    sentences.push_back(cat(count, count == 1 ? " detection has" : " detections have",
                            " a score above 1, as percent have: ranked right, but what is said by "
                            "score (calibration, thresholds) is not"));
  }
  if (const auto count = metrics.empty_box_count; count > 0) {
    sentences.push_back(
        cat(count, count == 1 ? " box has" : " boxes have", " no width or no height: never a hit"));
  }
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

std::string metrics_json(const CocoMetrics& metrics) {
  return metrics_text(metrics, nullptr);
}

std::string metrics_json(const CocoMetrics& metrics, const Explanation& explanation) {
  return metrics_text(metrics, &explanation);
}

}  // namespace retina
