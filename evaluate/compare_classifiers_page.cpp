#include "evaluate/compare_classifiers_page.h"

#include <algorithm>
#include <limits>

#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/evaluation/compare/classification_comparison_text.h"
#include "shared/evaluation/explain/classification_text.h"

namespace retina {

namespace {

// In front, so that the numbers stay below each other.
std::string with_mark(const std::optional<Interval>& interval) {
  return cat(interval && interval->excludes_zero() ? "● " : "", interval_text(interval));
}

std::vector<std::string> share_cells(const std::string& name, const PairedHits& hits) {
  const std::optional<double> a = hits.a().value(), b = hits.b().value();
  return {name, share_text(a), share_text(b), a ? change_text(*a, *b) : "-",
          with_mark(hits.interval())};
}

Table metrics_table(const ClassificationComparison& comparison) {
  Table table{.title = "Figures",
              .columns = {"", "A", "B", "B − A", "95 % interval"},
              .rows = {share_cells("top-1", comparison.top1)},
              .note = "●: the interval excludes 0."};
  if (comparison.per_class.size() > kBestLabels) {
    table.rows.push_back(share_cells("top-5", comparison.top5));
  }
  table.rows.push_back({"loss", fixed(comparison.loss_a, 3), fixed(comparison.loss_b, 3),
                        change_text(comparison.loss_a, comparison.loss_b),
                        with_mark(comparison.loss_interval)});
  return table;
}

Table recall_table(const ClassificationComparison& comparison) {
  Table table{.title = "Recall by class, the largest change first",
              .columns = {"class", "A", "B", "B − A", "95 % interval", "images"},
              .rows = {},
              .note = classification_interval_note(comparison)};
  for (const std::size_t i : classes_by_change(comparison)) {
    const ClassChange& one = comparison.per_class[i];
    table.rows.push_back(share_cells(one.name, one.hits));
    table.rows.back().push_back(cat(one.hits.image_count()));
  }
  return table;
}

Table flips_table(const ClassificationComparison& comparison, const std::vector<ImageFlip>& images,
                  const char* title) {
  Table table{.title = title,
              .columns = {"image", "truth", "taken for", "confidence"},
              .rows = {},
              .note = "The most confident mistakes of the other one first."};
  for (std::size_t i = 0; i < std::min(images.size(), kShownImages); ++i) {
    const ImageFlip& one = images[i];
    table.rows.push_back(
        {image_name(one.image_id, one.file_name), compared_class_name(comparison, one.category_id),
         compared_class_name(comparison, one.predicted_id), share_text(one.confidence)});
  }
  return table;
}

IntervalPlot recall_plot(const ClassificationComparison& comparison) {
  IntervalPlot plot{.title = "Change of each class's recall",
                    .x_label = "recall of B − recall of A",
                    .note = "Coloured: the interval excludes 0.",
                    .rows = {}};
  for (const std::size_t i : classes_by_change(comparison)) {
    const ClassChange& one = comparison.per_class[i];
    const Interval interval = one.hits.interval().value();
    plot.rows.push_back({.label = one.name,
                         .detail = cat(one.name, ": ", fixed(*one.hits.difference(), 3), " (",
                                       interval_text(interval), ")"),
                         .value = *one.hits.difference(),
                         .low = interval.low,
                         .high = interval.high,
                         .marked = interval.excludes_zero()});
  }
  return plot;
}

}  // namespace

Report make_classifiers_page(const ComparedNames& names, const ClassificationComparison& comparison,
                             const std::vector<EffectiveOption>& options) {
  Report report;
  report.title = "Comparison";
  report.subtitle = cat("A: ", names.a, " · B: ", names.b, " · on ", names.truth);
  const PairedHits& top1 = comparison.top1;
  const std::optional<double> a = top1.a().value(), b = top1.b().value();
  report.metrics = {
      {.label = "top-1 of A",
       .value = share_text(a),
       .detail = counted(comparison.image_count, "image")},
      {.label = "top-1 of B",
       .value = share_text(b),
       .detail = counted(comparison.image_count, "image")},
      {.label = "B − A",
       .value = a ? change_text(*a, *b) : "-",
       .detail = interval_text(top1.interval())},
      {.label = "McNemar's test", .value = p_text(top1.mid_p()), .detail = "mid-p, two-sided"},
      {.label = "only B is right",
       .value = cat(top1.only_b),
       .detail = cat("only A on ", top1.only_a)},
  };
  report.tables = {metrics_table(comparison), recall_table(comparison)};
  if (!comparison.only_b.empty()) {
    report.tables.push_back(flips_table(comparison, comparison.only_b, "Only B is right"));
  }
  if (!comparison.only_a.empty()) {
    report.tables.push_back(flips_table(comparison, comparison.only_a, "Only A is right"));
  }
  report.intervals = {recall_plot(comparison)};
  for (const EffectiveOption& option : options) {
    if (option.json != "null") report.settings.emplace_back(option.name, option.json);
  }
  return report;
}

}  // namespace retina
