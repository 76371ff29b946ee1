#include "shared/evaluation/compare/classification_comparison.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "shared/base/error.h"
#include "shared/base/printable.h"

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

}  // namespace retina
