#include "shared/evaluation/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/base/random.h"
#include "shared/base/text_table.h"
#include "shared/evaluation/compare/resampling.h"
#include "shared/evaluation/explain/metrics_text.h"
#include "shared/evaluation/score/json_fields.h"
#include "shared/evaluation/score/matching.h"

namespace retina {

namespace {

// Returns how often each of the images is drawn in a resample of as many.
std::vector<std::uint32_t> draw_images(std::size_t image_count, std::uint64_t seed,
                                       std::size_t resample) {
  const RandomStream random{
      .seed = seed, .use = RandomUse::kResample, .stream = static_cast<std::uint32_t>(resample)};
  std::vector<std::uint32_t> weights(image_count);
  for (std::size_t i = 0; i < image_count; ++i) ++weights[random.below(i, image_count)];
  return weights;
}

// Returns the mean over the classes that have objects.
double mean_ap(const std::vector<double>& class_aps) {
  double sum = 0;
  std::size_t count = 0;
  for (const double ap : class_aps) {
    if (ap < 0) continue;
    sum += ap;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

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

std::optional<Interval> percentile_interval(std::vector<double> values, double confidence) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double tail = (1 - confidence) / 2;
  // The summand keeps 1001 times .025 from being just below a whole number.
  const double place = static_cast<double>(values.size() + 1) * tail + 1e-9;
  const std::size_t k =
      std::clamp<std::size_t>(static_cast<std::size_t>(place), 1, (values.size() + 1) / 2);
  return Interval{.low = values[k - 1], .high = values[values.size() - k]};
}

Comparison compare_detections(const Instances& truth, const std::vector<Detection>& a,
                              const std::vector<Detection>& b, const ComparisonOptions& options) {
  Comparison result;
  result.options = options;
  const BoxGroups boxes_a(truth, a, options.thread_count, options.detection_limit),
      boxes_b(truth, b, options.thread_count, options.detection_limit);
  result.a = evaluate_detections(boxes_a, {.thread_count = options.thread_count});
  result.b = evaluate_detections(boxes_b, {.thread_count = options.thread_count});
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
    const std::vector<std::uint32_t> weights =
        draw_images(result.images.size(), options.seed, resample);
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
            : percentile_interval(std::move(class_differences[label]), options.confidence));
  }
  if (matched_a.images_with_objects() >= options.fewest_images) {
    result.ap_interval = percentile_interval(std::move(differences), options.confidence);
  }
  return result;
}

std::vector<std::size_t> classes_by_change(const Comparison& comparison) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < comparison.a.per_class.size(); ++i) {
    if (comparison.a.per_class[i].stats[kAp] >= 0) places.push_back(i);
  }
  sort_by_size(places, [&](std::size_t i) {
    return std::abs(comparison.b.per_class[i].stats[kAp] - comparison.a.per_class[i].stats[kAp]);
  });
  return places;
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
