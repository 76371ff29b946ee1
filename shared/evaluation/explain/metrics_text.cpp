#include "shared/evaluation/explain/metrics_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/base/text_table.h"

namespace retina {

namespace {

// Keys, in CocoStat's order.
constexpr std::array<const char*, kCocoStatCount> kStatKeys{
    "AP",  "AP50", "AP75",  "AP_small", "AP_medium", "AP_large",
    "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"};

struct SummaryLine {
  const char* title;
  const char* kind;
  const char* iou;
  const char* area;
  int limit;  // 0: the evaluation's
};

// Lines, in CocoStat's order.
constexpr std::array<SummaryLine, kCocoStatCount> kSummaryLines{{
    {"Average Precision", "(AP)", "0.50:0.95", "all", 0},
    {"Average Precision", "(AP)", "0.50", "all", 0},
    {"Average Precision", "(AP)", "0.75", "all", 0},
    {"Average Precision", "(AP)", "0.50:0.95", "small", 0},
    {"Average Precision", "(AP)", "0.50:0.95", "medium", 0},
    {"Average Precision", "(AP)", "0.50:0.95", "large", 0},
    {"Average Recall", "(AR)", "0.50:0.95", "all", 1},
    {"Average Recall", "(AR)", "0.50:0.95", "all", 10},
    {"Average Recall", "(AR)", "0.50:0.95", "all", 0},
    {"Average Recall", "(AR)", "0.50:0.95", "small", 0},
    {"Average Recall", "(AR)", "0.50:0.95", "medium", 0},
    {"Average Recall", "(AR)", "0.50:0.95", "large", 0},
}};

std::string padded_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string padded_right(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

// Returns true if the results seem to have labels from 0 in place of category ids.
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

std::string stat_key(std::size_t stat, std::uint32_t count_best) {
  return stat == kAr100 ? cat("AR", count_best) : kStatKeys.at(stat);
}

std::string metric_text(double value) {
  return value < 0 ? "-" : fixed(value, 3);
}

std::string coco_summary_text(const CocoMetrics& metrics) {
  std::string text;
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    const SummaryLine& line = kSummaryLines[i];
    text += cat(
        " ", padded_right(line.title, 18), " ", line.kind, " @[ IoU=", padded_right(line.iou, 9),
        " | area=", padded_left(line.area, 6),
        " | maxDets=", padded_left(cat(line.limit > 0 ? line.limit : metrics.detection_limit), 3),
        " ] = ", fixed(metrics.stats[i], 3), "\n");
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
  const std::array<std::string, 7> titles{
      "AP", "AP50", "AP75", "small", "medium", "large", stat_key(kAr100, metrics.detection_limit)};
  std::size_t name_width = 5;
  for (const ClassMetrics& one : metrics.per_class) {
    name_width = std::max(name_width, character_count(escaped(one.name)));
  }
  std::string text = padded_right("class", name_width);
  for (const std::string& title : titles) text += padded_left(title, 8);
  text += padded_left("objects", 10) + padded_left("detections", 12) + "\n";
  for (const ClassMetrics& one : metrics.per_class) {
    const std::string name = escaped(one.name);
    text += name + std::string(name_width - character_count(name), ' ');
    for (const std::size_t column : kColumns)
      text += padded_left(metric_text(one.stats[column]), 8);
    text += padded_left(cat(one.object_count), 10) + padded_left(cat(one.detection_count), 12);
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
  if (metrics.most_objects > metrics.detection_limit) {
    sentences.push_back(cat("an image has ", metrics.most_objects,
                            " objects of one class, and the best ", metrics.detection_limit,
                            " detections of an image and class count, as "
                            "COCO has it: the others are never found (--count-best counts more)"));
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
    sentences.push_back(cat(count, count == 1 ? " detection has" : " detections have",
                            " no width or no height: never a hit"));
  }
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

}  // namespace retina
