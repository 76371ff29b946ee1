#include "shared/evaluation/compare/comparison_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/text_table.h"
#include "shared/evaluation/explain/metrics_text.h"
#include "shared/evaluation/score/json_fields.h"
#include "shared/evaluation/score/matching.h"

namespace retina {

namespace {

std::string signed_text(double value) {
  return value > 0 ? "+" + fixed(value, 3) : fixed(value, 3);
}

bool is_clear(const std::optional<Interval>& interval) {
  return interval && interval->excludes_zero();
}

std::string percent(double confidence) {
  return shortest(std::round(confidence * 1000) / 10) + " %";
}

std::string images_text(const Comparison& comparison, const std::vector<std::size_t>& places,
                        const char* title) {
  std::vector<TextRow> rows{{title, "mistakes of A", "of B", "change", ""}};
  for (std::size_t i = 0; i < std::min(places.size(), kShownImages); ++i) {
    const ImageChange& one = comparison.images[places[i]];
    rows.push_back({image_name(one.image_id, one.file_name), mistakes_text(one.mistakes_a),
                    mistakes_text(one.mistakes_b), gain_text(one.gain())});
  }
  return aligned_table(rows, ToTheLeft::kFirstAndLast);
}

// Writes "a", "b", "difference": null if there is nothing to find.
void write_values(JsonWriter& json, double a, double b) {
  json.field("a", a).field("b", b).key("difference");
  if (a < 0 || b < 0) {
    json.null();
  } else {
    json.value(b - a);
  }
}

void write_ids(JsonWriter& json, const char* key, const Comparison& comparison,
               const std::vector<std::size_t>& places) {
  json.key(key).begin_array();
  for (std::size_t i = 0; i < std::min(places.size(), kShownImages); ++i) {
    json.value(comparison.images[places[i]].image_id);
  }
  json.end_array();
}

void write_class(JsonWriter& json, const Comparison& comparison, std::size_t place) {
  const ClassMetrics& a = comparison.a.per_class[place];
  const std::optional<Interval>& interval = comparison.class_intervals[place];
  json.begin_object().field("category_id", a.category_id).field("name", a.name);
  json.field("object_count", a.object_count);
  write_values(json, a.stats[kAp], comparison.b.per_class[place].stats[kAp]);
  write_interval(json, "interval", interval);
  json.field("excludes_zero", is_clear(interval)).end_object();
}

}  // namespace

void write_names(JsonWriter& json, const ComparedNames& names) {
  json.field("a", names.a).field("b", names.b).field("truth", names.truth);
  if (!names.page_a.empty()) json.field("page_a", names.page_a);
  if (!names.page_b.empty()) json.field("page_b", names.page_b);
}

std::string change_text(double a, double b) {
  return a < 0 || b < 0 ? "-" : signed_text(b - a);
}

double mean_mistakes(std::int64_t mistakes) {
  return static_cast<double>(mistakes) / static_cast<double>(kIouThresholdCount);
}

std::string mistakes_text(std::int64_t mistakes) {
  return fixed(mean_mistakes(mistakes), 1);
}

std::string gain_text(std::int64_t gain) {
  return cat(gain < 0 ? "+" : "", mistakes_text(-gain));
}

std::string interval_text(const std::optional<Interval>& interval) {
  if (!interval) return "";
  return cat(signed_text(interval->low), " to ", signed_text(interval->high));
}

IntervalCounts count_intervals(const Comparison& comparison) {
  IntervalCounts counts;
  for (const std::optional<Interval>& one : comparison.class_intervals) {
    if (!one) continue;
    ++counts.all;
    if (is_clear(one)) ++counts.clear;
  }
  return counts;
}

std::string interval_note(const Comparison& comparison) {
  const ComparisonOptions& options = comparison.options;
  const IntervalCounts counts = count_intervals(comparison);
  std::string text =
      cat("Intervals: ", percent(options.confidence), " of ", options.resample_count,
          " draws of the images with replacement, the same for A and B; none for a class with "
          "objects on fewer than ",
          options.fewest_images, " images.");
  if (counts.all > 0) {
    text += cat(" ", counts.clear, " of ", counts.all,
                counts.all == 1 ? " class interval excludes 0" : " class intervals exclude 0",
                "; by chance alone, about ", percent(1 - options.confidence), " would.");
  }
  return text;
}

std::string image_note() {
  return "Mistakes are missed objects and false detections, as a mean over IoU .50 to .95; "
         "detections count from each class's best score threshold on.";
}

std::string comparison_text(const ComparedNames& names, const Comparison& comparison) {
  const std::string interval_title = percent(comparison.options.confidence) + " interval";
  std::string text = cat("A: ", escaped(names.a, kWholeText), "\nB: ", escaped(names.b, kWholeText),
                         "\n", counted(comparison.a.image_count, "image"), ", ",
                         counted(comparison.a.object_count, "object"), ": ",
                         escaped(names.truth, kWholeText), "\n\n");

  std::vector<TextRow> rows{{"", "A", "B", "B - A", interval_title, ""}};
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    const double a = comparison.a.stats[i], b = comparison.b.stats[i];
    const std::optional<Interval> interval = i == kAp ? comparison.ap_interval : std::nullopt;
    rows.push_back({stat_key(i, comparison.a.detection_limit), metric_text(a), metric_text(b),
                    change_text(a, b), interval_text(interval), is_clear(interval) ? "*" : ""});
  }
  text += aligned_table(rows) + "\n";

  rows = {{"class", "AP A", "AP B", "B - A", interval_title, ""}};
  for (const std::size_t i : classes_by_change(comparison)) {
    const double a = comparison.a.per_class[i].stats[kAp];
    const double b = comparison.b.per_class[i].stats[kAp];
    const std::optional<Interval>& interval = comparison.class_intervals[i];
    rows.push_back({escaped(comparison.a.per_class[i].name), metric_text(a), metric_text(b),
                    change_text(a, b), interval_text(interval), is_clear(interval) ? "*" : ""});
  }
  text +=
      aligned_table(rows) + "* excludes 0\n\n" + sentence_lines(interval_note(comparison)) + "\n\n";

  const std::vector<std::size_t> better = better_images(comparison);
  const std::vector<std::size_t> worse = worse_images(comparison);
  text += cat(counted(better.size(), "image"), " better, ", worse.size(), " worse, ",
              comparison.images.size() - better.size() - worse.size(), " the same.\n", image_note(),
              "\n");
  if (!better.empty()) text += "\n" + images_text(comparison, better, "better");
  if (!worse.empty()) text += "\n" + images_text(comparison, worse, "worse");
  return text;
}

std::string comparison_json(const ComparedNames& names, const Comparison& comparison) {
  JsonWriter json;
  json.begin_object();
  write_names(json, names);
  json.field("image_count", comparison.a.image_count)
      .field("object_count", comparison.a.object_count);

  json.key("stats").begin_array();
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    json.begin_object().field("name", stat_key(i, comparison.a.detection_limit));
    write_values(json, comparison.a.stats[i], comparison.b.stats[i]);
    write_interval(json, "interval", i == kAp ? comparison.ap_interval : std::nullopt);
    json.end_object();
  }
  json.end_array();

  json.key("per_class").begin_array();
  for (const std::size_t i : classes_by_change(comparison)) write_class(json, comparison, i);
  for (std::size_t i = 0; i < comparison.a.per_class.size(); ++i) {
    if (comparison.a.per_class[i].stats[kAp] < 0) write_class(json, comparison, i);
  }
  json.end_array();

  const ComparisonOptions& options = comparison.options;
  json.key("bootstrap")
      .begin_object()
      .field("resample_count", options.resample_count)
      .field("confidence", options.confidence)
      .field("seed", options.seed)
      .field("fewest_images", static_cast<std::uint64_t>(options.fewest_images))
      .end_object();

  const std::vector<std::size_t> better = better_images(comparison);
  const std::vector<std::size_t> worse = worse_images(comparison);
  json.field("better_count", static_cast<std::uint64_t>(better.size()))
      .field("worse_count", static_cast<std::uint64_t>(worse.size()));
  write_ids(json, "better", comparison, better);
  write_ids(json, "worse", comparison, worse);
  json.key("images").begin_array();
  for (const ImageChange& one : comparison.images) {
    json.begin_object().field("image_id", one.image_id).field("file_name", one.file_name);
    json.field("a", mean_mistakes(one.mistakes_a)).field("b", mean_mistakes(one.mistakes_b));
    json.field("gain", mean_mistakes(one.gain())).end_object();
  }
  json.end_array().end_object();
  return json.pretty_text();
}

}  // namespace retina
