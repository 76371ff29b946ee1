#include "shared/evaluation/compare/classification_comparison.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/text_table.h"
#include "shared/evaluation/explain/classification_text.h"
#include "shared/evaluation/score/json_fields.h"

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

const char* star(const std::optional<Interval>& interval) {
  return interval && interval->excludes_zero() ? "*" : "";
}

TextRow share_row(const std::string& name, const PairedHits& hits) {
  const std::optional<double> a = hits.a().value(), b = hits.b().value();
  const std::optional<Interval> interval = hits.interval();
  return {name,
          share_text(a),
          share_text(b),
          a ? change_text(*a, *b) : "-",
          interval_text(interval),
          star(interval)};
}

std::string flips_text(const ClassificationComparison& comparison,
                       const std::vector<ImageFlip>& images, const char* title) {
  std::vector<TextRow> rows{{title, "confidence", "taken for", "truth"}};
  for (std::size_t i = 0; i < std::min(images.size(), kShownImages); ++i) {
    const ImageFlip& one = images[i];
    rows.push_back({image_name(one.image_id, one.file_name), share_text(one.confidence),
                    escaped(compared_class_name(comparison, one.predicted_id)),
                    escaped(compared_class_name(comparison, one.category_id))});
  }
  return aligned_table(rows, ToTheLeft::kFirstAndLast);
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

std::vector<std::size_t> classes_by_change(const ClassificationComparison& comparison) {
  const std::vector<ClassChange>& classes = comparison.per_class;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].hits.image_count() > 0) places.push_back(i);
  }
  const auto size_of = [&](std::size_t i) { return std::abs(*classes[i].hits.difference()); };
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  return places;
}

std::string p_text(double p) {
  return p < .0005 ? "p < 0.001" : cat("p ", fixed(p, 3));
}

std::string compared_class_name(const ClassificationComparison& comparison,
                                std::int64_t category_id) {
  for (const ClassChange& one : comparison.per_class) {
    if (one.category_id == category_id && !one.name.empty()) return one.name;
  }
  return cat("category ", category_id);
}

std::string classification_interval_note(const ClassificationComparison& comparison) {
  std::int64_t clear_count = 0, class_count = 0;
  for (const ClassChange& one : comparison.per_class) {
    if (one.hits.image_count() == 0) continue;
    ++class_count;
    if (one.hits.interval()->excludes_zero()) ++clear_count;
  }
  return cat(
      "Intervals: 95 %, of the paired difference (Bonett and Price 2012); p: McNemar's test, "
      "mid-p. "
      "Both cover the choice of images, not that of the seed. ",
      clear_count, " of ", class_count,
      class_count == 1 ? " class interval excludes 0" : " class intervals exclude 0",
      "; by chance alone, about 5 % would.");
}

std::string classification_comparison_text(const ComparedNames& names,
                                           const ClassificationComparison& comparison) {
  std::string text =
      cat("A: ", escaped(names.a, kWholeText), "\nB: ", escaped(names.b, kWholeText), "\n",
          counted(comparison.image_count, "image"), ": ", escaped(names.truth, kWholeText), "\n\n");
  const bool has_top5 = comparison.per_class.size() > kBestLabels;
  std::vector<TextRow> rows{{"", "A", "B", "B - A", "95 % interval", ""},
                            share_row("top-1", comparison.top1)};
  if (has_top5) rows.push_back(share_row("top-5", comparison.top5));
  rows.push_back({"loss", fixed(comparison.loss_a, 3), fixed(comparison.loss_b, 3),
                  change_text(comparison.loss_a, comparison.loss_b),
                  interval_text(comparison.loss_interval), star(comparison.loss_interval)});
  text += aligned_table(rows);
  text += cat("Images right only in A: ", comparison.top1.only_a,
              ", only in B: ", comparison.top1.only_b, "; ", p_text(comparison.top1.mid_p()),
              " (McNemar)\n\n");

  rows = {{"class", "recall A", "recall B", "B - A", "95 % interval", ""}};
  for (const std::size_t i : classes_by_change(comparison)) {
    const ClassChange& one = comparison.per_class[i];
    rows.push_back(share_row(escaped(one.name), one.hits));
  }
  text += aligned_table(rows) + "* excludes 0\n\n";
  text += sentence_lines(classification_interval_note(comparison)) + "\n";
  if (!comparison.only_b.empty()) {
    text += "\n" + flips_text(comparison, comparison.only_b, "only B is right");
  }
  if (!comparison.only_a.empty()) {
    text += "\n" + flips_text(comparison, comparison.only_a, "only A is right");
  }
  return text;
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
