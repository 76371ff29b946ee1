#include "evaluate/compare_page.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/image_name.h"
#include "shared/evaluation/explain/metrics_json.h"
#include "shared/evaluation/explain/metrics_text.h"

namespace retina {

namespace {

// In front, so that the numbers stay below each other.
std::string marked_text(const std::optional<Interval>& interval) {
  return cat(interval && interval->excludes_zero() ? "● " : "", interval_text(interval));
}

Table stats_table(const Comparison& comparison) {
  Table table{.title = "The 12 numbers",
              .columns = {"", "A", "B", "B − A", "95 % interval"},
              .rows = {},
              .note = "●: the interval excludes 0."};
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    const double a = comparison.a.stats[i], b = comparison.b.stats[i];
    const std::optional<Interval> interval = i == kAp ? comparison.ap_interval : std::nullopt;
    table.rows.push_back(
        {stat_key(i), metric_text(a), metric_text(b), change_text(a, b), marked_text(interval)});
  }
  return table;
}

Table class_table(const Comparison& comparison) {
  Table table{.title = "AP by class, the largest change first",
              .columns = {"class", "A", "B", "B − A", "95 % interval", "objects"},
              .rows = {},
              .note = interval_note(comparison)};
  for (const std::size_t i : classes_by_change(comparison)) {
    const ClassMetrics& a = comparison.a.per_class[i];
    const double ap_b = comparison.b.per_class[i].stats[kAp];
    const std::optional<Interval>& interval = comparison.class_intervals[i];
    table.rows.push_back({a.name, metric_text(a.stats[kAp]), metric_text(ap_b),
                          change_text(a.stats[kAp], ap_b), marked_text(interval),
                          cat(a.object_count)});
  }
  return table;
}

Table image_table(const Comparison& comparison, const std::vector<std::size_t>& places,
                  const char* title) {
  Table table{.title = title,
              .columns = {"image", "mistakes of A", "of B", "change"},
              .rows = {},
              .note = image_note()};
  for (std::size_t i = 0; i < std::min(places.size(), kShownImages); ++i) {
    const ImageChange& one = comparison.images[places[i]];
    table.rows.push_back({image_name(one.image_id, one.file_name), mistakes_text(one.mistakes_a),
                          mistakes_text(one.mistakes_b), gain_text(one.gain())});
  }
  return table;
}

IntervalPlot class_plot(const Comparison& comparison) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  IntervalPlot plot{.title = "Change of each class's AP",
                    .x_label = "AP of B − AP of A",
                    .note =
                        "Coloured: the interval excludes 0. Without a line: objects on too few "
                        "images for an interval.",
                    .rows = {}};
  for (const std::size_t i : classes_by_change(comparison)) {
    const double a = comparison.a.per_class[i].stats[kAp];
    const double b = comparison.b.per_class[i].stats[kAp];
    const std::optional<Interval>& interval = comparison.class_intervals[i];
    const std::string& name = comparison.a.per_class[i].name;
    plot.rows.push_back(
        {.label = name,
         .detail = cat(name, ": ", change_text(a, b),
                       interval ? cat(" (", interval_text(interval), ")") : std::string()),
         .value = b - a,
         .low = interval ? interval->low : kNone,
         .high = interval ? interval->high : kNone,
         .marked = interval && interval->excludes_zero()});
  }
  return plot;
}

}  // namespace

Report make_compare_page(const ComparedNames& names, const Comparison& comparison,
                         const std::vector<EffectiveOption>& options) {
  Report report;
  report.title = "Comparison";
  report.subtitle = cat("A: ", names.a, " · B: ", names.b, " · on ", names.truth);
  const double a = comparison.a.stats[kAp], b = comparison.b.stats[kAp];
  const std::vector<std::size_t> better = better_images(comparison);
  const std::vector<std::size_t> worse = worse_images(comparison);
  const IntervalCounts counts = count_intervals(comparison);
  report.metrics = {
      {.label = "AP of A", .value = metric_text(a), .detail = "IoU .50 to .95"},
      {.label = "AP of B", .value = metric_text(b), .detail = "IoU .50 to .95"},
      {.label = "B − A",
       .value = change_text(a, b),
       .detail = comparison.ap_interval ? interval_text(comparison.ap_interval) : "no interval"},
      {.label = "classes that differ",
       .value = cat(counts.clear),
       .detail = cat("of ", counts.all, " with an interval")},
      {.label = "images better",
       .value = cat(better.size()),
       .detail = cat(worse.size(), " worse")},
  };
  report.tables = {stats_table(comparison), class_table(comparison)};
  if (!better.empty()) {
    report.tables.push_back(image_table(comparison, better, "Images that got better"));
  }
  if (!worse.empty()) {
    report.tables.push_back(image_table(comparison, worse, "Images that got worse"));
  }
  report.intervals = {class_plot(comparison)};
  for (const EffectiveOption& option : options) {
    if (option.json != "null") report.settings.emplace_back(option.name, option.json);
  }
  return report;
}

}  // namespace retina
