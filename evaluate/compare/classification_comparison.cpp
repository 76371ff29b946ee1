#include "evaluate/compare/classification_comparison.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "evaluate/explain/classification_text.h"
#include "evaluate/explain/json_fields.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/text_table.h"

namespace retina {

namespace {

constexpr const char* kSameImages = "evaluate both models on the same shards";

std::string name_of(const Prediction& one) {
  return image_name(one.image_id, one.file_name);
}

void check_same_images(const std::array<ClassifiedSide, 2>& sides) {
  const std::vector<Prediction>&a = sides[0].predictions, &b = sides[1].predictions;
  const auto refuse = [&](const std::string& problem) {
    return Error(ErrorKind::kConfig, cat(sides[0].name, " and ", sides[1].name, ": ", problem),
                 kSameImages);
  };
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const bool only_a = i >= b.size() || (i < a.size() && a[i].image_id < b[i].image_id);
    if (only_a || i >= a.size() || a[i].image_id != b[i].image_id) {
      throw refuse(cat("not the same images (", a.size(), " and ", b.size(), "; ",
                       name_of(only_a ? a[i] : b[i]), " is only in the ",
                       only_a ? "first" : "second", ")"));
    }
    if (a[i].category_id != b[i].category_id) {
      throw refuse(cat("not the same classes (", name_of(a[i]), " is of category ",
                       a[i].category_id, " and ", b[i].category_id, ")"));
    }
  }
}

std::optional<Interval> mean_interval(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return std::nullopt;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  const double half = kNormalQuantile * std::sqrt(squares / (count - 1) / count);
  return Interval{.low = mean - half, .high = mean + half};
}

void sort_by_confidence(std::vector<ImageFlip>& images) {
  std::stable_sort(images.begin(), images.end(), [](const ImageFlip& a, const ImageFlip& b) {
    return a.confidence > b.confidence;
  });
}

MetricChange change_of(const std::string& name, const PairedHits& hits) {
  return {.name = name, .a = hits.a().value(), .b = hits.b().value(), .interval = hits.interval()};
}

// Returns the places in per_class of the classes with images, the largest change of recall first,
// equally large ones in their order.
std::vector<std::size_t> classes_by_change(const std::vector<ClassChange>& classes) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].hits.image_count() > 0) places.push_back(i);
  }
  const auto size_of = [&](std::size_t i) { return std::abs(*classes[i].hits.difference()); };
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  return places;
}

// Writes "a", "b", "difference", "interval", "only_a", "only_b", "p": null if there are no images.
void write_paired_hits(JsonWriter& json, const PairedHits& hits) {
  write_optional(json, "a", hits.a().value());
  write_optional(json, "b", hits.b().value());
  write_optional(json, "difference", hits.difference());
  write_interval(json, "interval", hits.interval());
  json.field("only_a", hits.only_a).field("only_b", hits.only_b).field("p", hits.mid_p());
}

void write_flips(JsonWriter& json, const char* key, const std::vector<ImageFlip>& images) {
  json.key(key).begin_array();
  for (const ImageFlip& one : images) {
    json.begin_object()
        .field("image_id", one.image_id)
        .field("file_name", one.file_name)
        .field("category_id", one.category_id)
        .field("predicted_id", one.predicted_id)
        .field("confidence", one.confidence)
        .end_object();
  }
  json.end_array();
}

}  // namespace

ClassificationComparison compare_predictions(const std::array<ClassifiedSide, 2>& sides,
                                             const Categories& categories) {
  check_same_images(sides);
  ClassificationComparison result;
  std::unordered_map<std::int64_t, std::size_t> places;
  for (const Category& one : categories) {
    places.emplace(one.id, result.per_class.size());
    result.per_class.push_back({.category_id = one.id, .name = one.name});
  }
  std::vector<double> loss_changes;
  const std::vector<Prediction>& all = sides[0].predictions;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Prediction &a = all[i], &b = sides[1].predictions[i];
    const auto place = places.find(a.category_id);
    if (place == places.end()) {
      throw Error(ErrorKind::kData,
                  cat(sides[0].name, ": ", name_of(a), ": category ", a.category_id,
                      " is not among its ", categories.size(), " classes"));
    }
    const bool a_hits = a.rank == 0, b_hits = b.rank == 0;
    result.top1.add(a_hits, b_hits);
    result.top5.add(a.rank < static_cast<std::int64_t>(kBestLabels),
                    b.rank < static_cast<std::int64_t>(kBestLabels));
    result.per_class[place->second].hits.add(a_hits, b_hits);
    result.loss_a += a.loss;
    result.loss_b += b.loss;
    loss_changes.push_back(b.loss - a.loss);
    if (a_hits == b_hits) continue;
    const Prediction& wrong = a_hits ? b : a;
    (a_hits ? result.only_a : result.only_b)
        .push_back({.image_id = wrong.image_id,
                    .file_name = wrong.file_name,
                    .category_id = wrong.category_id,
                    .predicted_id = wrong.predicted_id,
                    .confidence = wrong.confidence});
  }
  result.image_count = static_cast<std::int64_t>(all.size());
  if (!all.empty()) {
    result.loss_a /= static_cast<double>(all.size());
    result.loss_b /= static_cast<double>(all.size());
  }
  result.loss_interval = mean_interval(loss_changes, result.loss_b - result.loss_a);
  sort_by_confidence(result.only_a);
  sort_by_confidence(result.only_b);
  return result;
}

std::string classification_interval_note(const ClassificationComparison& comparison) {
  std::vector<std::optional<Interval>> intervals;
  for (const ClassChange& one : comparison.per_class) intervals.push_back(one.hits.interval());
  return cat(
      "Intervals: 95 %, of the paired difference (Bonett and Price 2012); p: McNemar's test, "
      "mid-p. Both cover the choice of images, not that of the seed.",
      clear_intervals_text(intervals));
}

std::string classification_comparison_text(const ComparedNames& names,
                                           const ClassificationComparison& comparison) {
  std::vector<MetricChange> metrics{change_of("top-1", comparison.top1)}, classes;
  if (comparison.per_class.size() > kBestLabels) {
    metrics.push_back(change_of("top-5", comparison.top5));
  }
  metrics.push_back({.name = "loss",
                     .a = comparison.loss_a,
                     .b = comparison.loss_b,
                     .interval = comparison.loss_interval});
  for (const std::size_t i : classes_by_change(comparison.per_class)) {
    classes.push_back(change_of(comparison.per_class[i].name, comparison.per_class[i].hits));
  }
  const double p = comparison.top1.mid_p();
  return cat(names_text(names, counted(comparison.image_count, "image")),
             changes_table("", metrics), "Images right only in A: ", comparison.top1.only_a,
             ", only in B: ", comparison.top1.only_b, "; p ", p < .0005 ? "< 0.001" : fixed(p, 3),
             " (McNemar)\n\n", changes_table("recall of class", classes), "* excludes 0\n\n",
             sentence_lines(classification_interval_note(comparison)), "\n");
}

std::string classification_comparison_json(const ComparedNames& names,
                                           const ClassificationComparison& comparison) {
  JsonWriter json;
  json.begin_object().field("task", kClassificationTask);
  write_names(json, names);
  json.field("image_count", comparison.image_count);
  for (const auto& [key, hits] :
       {std::pair{"top1", &comparison.top1}, {"top5", &comparison.top5}}) {
    json.key(key).begin_object();
    write_paired_hits(json, *hits);
    json.end_object();
  }
  json.key("loss")
      .begin_object()
      .field("a", comparison.loss_a)
      .field("b", comparison.loss_b)
      .field("difference", comparison.loss_b - comparison.loss_a);
  write_interval(json, "interval", comparison.loss_interval);
  json.end_object().key("per_class").begin_array();
  for (const ClassChange& one : comparison.per_class) {
    json.begin_object()
        .field("category_id", one.category_id)
        .field("name", one.name)
        .field("image_count", one.hits.image_count());
    write_paired_hits(json, one.hits);
    json.end_object();
  }
  json.end_array();
  write_flips(json, "only_a", comparison.only_a);
  write_flips(json, "only_b", comparison.only_b);
  return json.end_object().pretty_text();
}

}  // namespace retina
