#include "evaluate/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "evaluate/explain/json_fields.h"
#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/base/text_table.h"
#include "shared/evaluation/score/matching.h"
#include "shared/evaluation/score/metrics_text.h"
#include "shared/evaluation/score/resampling.h"

namespace retina {

namespace {

constexpr std::size_t kListedImages = 10;  // better images, and worse ones as many

// Sorts the largest first, equally large ones in the order of `places`.
template <class Size>
void sort_by_size(std::vector<std::size_t>& places, const Size& size_of) {
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
}

// Returns the images that got better (`sign` 1) or worse (-1).
std::vector<std::size_t> changed_images(const std::vector<ImageChange>& images, int sign) {
  const auto change = [&](std::size_t i) { return sign * images[i].gain(); };
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (change(i) > 0) places.push_back(i);
  }
  sort_by_size(places, change);
  return places;
}

std::string value_text(const std::optional<double>& value) {
  return value ? fixed(*value, 3) : "-";
}

std::string signed_text(double value) {
  return value > 0 ? "+" + fixed(value, 3) : fixed(value, 3);
}

bool is_clear(const std::optional<Interval>& interval) {
  return interval && interval->excludes_zero();
}

// Returns a metric of COCO's, -1 of which means that there is nothing to find.
MetricChange change_of(const std::string& name, double a, double b,
                       const std::optional<Interval>& interval) {
  if (a < 0 || b < 0) return {.name = name};
  return {.name = name, .a = a, .b = b, .interval = interval};
}

double mean_mistakes(std::int64_t mistakes) {
  return static_cast<double>(mistakes) / static_cast<double>(kIouThresholdCount);
}

// Returns the places in per_class of the classes with something to find, the largest change of AP
// first; equally large ones in ascending category id.
std::vector<std::size_t> classes_by_change(const Comparison& comparison) {
  const auto ap = [&](const CocoMetrics& metrics, std::size_t i) {
    return metrics.per_class[i].stats[kAp];
  };
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < comparison.a.per_class.size(); ++i) {
    if (ap(comparison.a, i) >= 0) places.push_back(i);
  }
  sort_by_size(places,
               [&](std::size_t i) { return std::abs(ap(comparison.b, i) - ap(comparison.a, i)); });
  return places;
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
  for (std::size_t i = 0; i < std::min(places.size(), kListedImages); ++i) {
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

Comparison compare_detections(const Instances& truth, const std::vector<Detection>& a,
                              const std::vector<Detection>& b, const ComparisonOptions& options) {
  Comparison result;
  result.options = options;
  const BoxGroups boxes_a(truth, a, options.thread_count, options.detection_limit,
                          options.names[0]),
      boxes_b(truth, b, options.thread_count, options.detection_limit, options.names[1]);
  result.a = evaluate_detections(boxes_a, options.thread_count);
  result.b = evaluate_detections(boxes_b, options.thread_count);
  const ResampledEvaluation matched_a(boxes_a, options.thread_count);
  const ResampledEvaluation matched_b(boxes_b, options.thread_count);

  for (std::size_t i = 0; i < boxes_a.image_count(); ++i) {
    result.images.push_back({.image_id = boxes_a.image(i).id,
                             .file_name = boxes_a.image(i).file_name,
                             .mistakes_a = matched_a.image_mistakes()[i],
                             .mistakes_b = matched_b.image_mistakes()[i]});
  }

  // [class][resample], NaN if the class is absent.
  const auto resample_count = static_cast<std::size_t>(options.resample_count);
  std::vector<std::vector<double>> class_differences(result.a.per_class.size(),
                                                     std::vector<double>(resample_count));
  std::vector<double> differences(resample_count);
  for_each_parallel(resample_count, options.thread_count, [&](std::size_t resample) {
    const std::vector<std::uint32_t> weights = draw_images(result.images.size(), resample);
    const std::vector<double> aps_a = matched_a.class_aps(weights);
    const std::vector<double> aps_b = matched_b.class_aps(weights);
    for (std::size_t label = 0; label < aps_a.size(); ++label) {
      class_differences[label][resample] =
          aps_a[label] < 0 ? std::numeric_limits<double>::quiet_NaN() : aps_b[label] - aps_a[label];
    }
    differences[resample] = mean_ap(aps_b) - mean_ap(aps_a);
  });

  const std::vector<std::size_t> image_counts = matched_a.object_image_counts();
  for (std::size_t label = 0; label < image_counts.size(); ++label) {
    result.class_intervals.push_back(
        image_counts[label] < options.fewest_images
            ? std::nullopt
            : percentile_interval(std::move(class_differences[label])));
  }
  if (matched_a.images_with_objects() >= options.fewest_images) {
    result.ap_interval = percentile_interval(std::move(differences));
  }
  return result;
}

std::vector<std::size_t> better_images(const Comparison& comparison) {
  return changed_images(comparison.images, 1);
}

std::vector<std::size_t> worse_images(const Comparison& comparison) {
  return changed_images(comparison.images, -1);
}

void write_names(JsonWriter& json, const ComparedNames& names) {
  json.field("a", names.a).field("b", names.b).field("truth", names.truth);
  if (!names.page_a.empty()) json.field("page_a", names.page_a);
  if (!names.page_b.empty()) json.field("page_b", names.page_b);
}

std::string names_text(const ComparedNames& names, const std::string& counts) {
  return cat("A: ", escaped(names.a, kWholeText), "\nB: ", escaped(names.b, kWholeText), "\n",
             counts, ": ", escaped(names.truth, kWholeText), "\n\n");
}

std::string changes_table(const std::string& title, const std::vector<MetricChange>& changes) {
  std::vector<TextRow> rows{{title, "A", "B", "B - A", "95 % interval", ""}};
  for (const MetricChange& one : changes) {
    rows.push_back(
        {escaped(one.name), value_text(one.a), value_text(one.b),
         one.a ? signed_text(*one.b - *one.a) : "-",
         one.interval ? cat(signed_text(one.interval->low), " to ", signed_text(one.interval->high))
                      : "",
         is_clear(one.interval) ? "*" : ""});
  }
  return aligned_table(rows);
}

std::string clear_intervals_text(const std::vector<std::optional<Interval>>& class_intervals) {
  const auto all = std::count_if(class_intervals.begin(), class_intervals.end(),
                                 [](const auto& one) { return one.has_value(); });
  if (all == 0) return "";
  return cat(" ", std::count_if(class_intervals.begin(), class_intervals.end(), is_clear), " of ",
             counted(all, "class interval"), " exclude 0; by chance alone, about 5 % would.");
}

std::string interval_note(const Comparison& comparison) {
  return cat("Intervals: 95 % of ", comparison.options.resample_count,
             " draws of the images with replacement, the same for A and B; none for a class with "
             "objects on fewer than ",
             comparison.options.fewest_images, " images.",
             clear_intervals_text(comparison.class_intervals));
}

std::string image_note() {
  return "Mistakes are missed objects and false detections, as a mean over IoU .50 to .95; "
         "detections count from each class's best score threshold on.";
}

std::string comparison_text(const ComparedNames& names, const Comparison& comparison) {
  std::vector<MetricChange> stats, classes;
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    stats.push_back(change_of(stat_key(i, comparison.a.detection_limit), comparison.a.stats[i],
                              comparison.b.stats[i],
                              i == kAp ? comparison.ap_interval : std::nullopt));
  }
  for (const std::size_t i : classes_by_change(comparison)) {
    const ClassMetrics &a = comparison.a.per_class[i], &b = comparison.b.per_class[i];
    classes.push_back(change_of(a.name, a.stats[kAp], b.stats[kAp], comparison.class_intervals[i]));
  }
  const std::size_t better = better_images(comparison).size();
  const std::size_t worse = worse_images(comparison).size();
  return cat(names_text(names, cat(counted(comparison.a.image_count, "image"), ", ",
                                   counted(comparison.a.object_count, "object"))),
             changes_table("", stats), "\n", changes_table("AP of class", classes),
             "* excludes 0\n\n", sentence_lines(interval_note(comparison)), "\n\n",
             counted(better, "image"), " better, ", worse, " worse, ",
             comparison.images.size() - better - worse, " the same.\n", image_note(), "\n");
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
      .field("confidence", kConfidence)
      .field("seed", kResampleSeed)
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
