#include "shared/evaluation/score/metrics_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
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
  std::string text = cat("a category that is not in the annotations (", list, "): ignored");
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
  constexpr std::array kAreas{"all", "all", "all", "small", "medium", "large"};
  std::string text;
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    const bool is_ap = i < kAr1;
    const char* const iou = i == kAp50 ? "0.50" : i == kAp75 ? "0.75" : "0.50:0.95";
    const unsigned limit = i == kAr1 ? 1 : i == kAr10 ? 10 : metrics.detection_limit;
    std::array<char, 120> line{};
    std::snprintf(line.data(), line.size(), " %-18s (%s) @[ IoU=%-9s | area=%6s | maxDets=%3u ] = ",
                  is_ap ? "Average Precision" : "Average Recall", is_ap ? "AP" : "AR", iou,
                  kAreas[i % kAreas.size()], limit);
    text += cat(line.data(), fixed(metrics.stats[i], 3), "\n");
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
  constexpr std::array kColumns{kAp, kAp50, kAp75, kApSmall, kApMedium, kApLarge, kAr100};
  std::vector<TextRow> rows{{"class", "AP", "AP50", "AP75", "small", "medium", "large",
                             stat_key(kAr100, metrics.detection_limit), "objects", "detections"}};
  for (const ClassMetrics& one : metrics.per_class) {
    TextRow& row = rows.emplace_back(TextRow{escaped(one.name)});
    for (const CocoStat column : kColumns) row.push_back(metric_text(one.stats[column]));
    row.insert(row.end(), {cat(one.object_count), cat(one.detection_count)});
  }
  return aligned_table(rows);
}

std::string quarantined_text(std::int64_t count) {
  if (count == 0) return "";
  return cat(count, count == 1 ? " image of the set is" : " images of the set are",
             " quarantined (quarantine.jsonl): not in these numbers");
}

std::string oddities_text(const CocoMetrics& metrics) {
  std::string text;
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) text += (text.empty() ? "" : "; ") + sentence;
  };
  const auto add_count = [&](std::int64_t count, const std::string& problem) {
    if (count == 0) return;
    add(cat(count, count == 1 ? " detection has " : " detections have ", problem));
  };
  add(no_truth_text(metrics));
  if (metrics.has_annotation_0) {
    add("an annotation has id 0, which COCO's evaluation (pycocotools) takes for \"no match\": its "
        "object is never found, here neither; number annotations from 1");
  }
  if (metrics.most_objects > metrics.detection_limit) {
    add(cat("an image has ", metrics.most_objects, " objects of one class, and the best ",
            metrics.detection_limit,
            " detections of an image and class count, as COCO has it: the others are never found "
            "(--count-best counts more)"));
  }
  add(quarantined_text(metrics.quarantined_count));
  if (metrics.unknown_category_count > 0) {
    add_count(metrics.unknown_category_count, unknown_categories_text(metrics));
  }
  add_count(metrics.low_score_count, "a score of 0 or less: ranked like the others");
  if (metrics.detection_count == 0 && metrics.object_count > 0) {
    add("there are no detections at all: every object counts as missed");
  }
  add_count(metrics.high_score_count,
            "a score above 1, as percent have: ranked right, but what is said by score "
            "(calibration, thresholds) is not");
  add_count(metrics.empty_box_count, "no width or no height: never a hit");
  return text;
}

}  // namespace retina
