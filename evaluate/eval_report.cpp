#include "evaluate/eval_report.h"

#include <utility>

#include "shared/base/cat.h"
#include "shared/evaluation/metrics_text.h"

namespace retina {

namespace {

Table summary_table(const CocoMetrics& metrics) {
  Table table{.title = "By object size and number of detections",
              .columns = {"", "all", "small", "medium", "large"},
              .rows = {},
              .note =
                  "small: area up to 32² px, medium: up to 96² px, large: above. AP and AR are "
                  "means over IoU .50 to .95."};
  const auto text = [&](std::size_t stat) { return metric_text(metrics.stats[stat]); };
  table.rows = {
      {"AP", text(kAp), text(kApSmall), text(kApMedium), text(kApLarge)},
      {"AR, 100 detections", text(kAr100), text(kArSmall), text(kArMedium), text(kArLarge)},
      {"AR, 10 detections", text(kAr10), "", "", ""},
      {"AR, 1 detection", text(kAr1), "", "", ""},
      {"AP at IoU .50", text(kAp50), "", "", ""},
      {"AP at IoU .75", text(kAp75), "", "", ""}};
  return table;
}

Table class_table(const CocoMetrics& metrics) {
  Table table{.title = "By class",
              .columns = {"class", "AP", "AP50", "AP75", "AR100", "objects", "found"},
              .rows = {},
              .note =
                  "objects: ground truth without crowd regions; found: all detections of the "
                  "class, whatever their score."};
  for (const ClassMetrics& one : metrics.per_class) {
    std::vector<std::string> row{one.name};
    for (const std::size_t stat : {kAp, kAp50, kAp75, kAr100}) {
      row.push_back(metric_text(one.stats[stat]));
    }
    row.push_back(cat(one.object_count));
    row.push_back(cat(one.detection_count));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

Report make_eval_report(const EvalSubject& subject, const CocoMetrics& metrics,
                        std::vector<Picture> pictures,
                        const std::vector<EffectiveOption>& options) {
  Report report;
  report.title = "Evaluation";
  report.subtitle = cat(subject.model, " on ", subject.data);
  const auto figure = [&](const char* label, std::size_t stat, const char* detail) {
    report.figures.push_back(
        {.label = label, .value = metric_text(metrics.stats[stat]), .detail = detail});
  };
  figure("AP", kAp, "IoU .50 to .95");
  figure("AP50", kAp50, "IoU .50");
  figure("AP75", kAp75, "IoU .75");
  figure("AR100", kAr100, "100 detections per image");
  report.figures.push_back({.label = "images",
                            .value = cat(metrics.image_count),
                            .detail = cat(metrics.object_count, " objects")});
  report.tables = {summary_table(metrics), class_table(metrics)};
  if (!pictures.empty()) {
    report.galleries.push_back({.title = "Detections",
                                .note = "Coloured: found, with class and score. White, dashed: "
                                        "ground truth.",
                                .pictures = std::move(pictures)});
  }
  for (const EffectiveOption& option : options) {
    if (option.json != "null") report.settings.emplace_back(option.name, option.json);
  }
  if (const std::string text = oddities_text(metrics); !text.empty()) {
    report.notes.push_back(text + ".");
  }
  return report;
}

}  // namespace retina
