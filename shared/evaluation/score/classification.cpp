#include "shared/evaluation/score/classification.h"

#include <algorithm>
#include <cmath>

#include "shared/base/error.h"

namespace retina {

namespace {

std::vector<ConfusedPair> count_pairs(const std::vector<ClassOutcome>& outcomes) {
  std::vector<std::uint64_t> keys;  // truth and predicted, each 32 bits
  keys.reserve(outcomes.size());
  for (const ClassOutcome& one : outcomes) {
    keys.push_back(static_cast<std::uint64_t>(one.label) << 32 |
                   static_cast<std::uint64_t>(one.predicted()));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<ConfusedPair> pairs;
  for (std::size_t begin = 0, end = 0; begin < keys.size(); begin = end) {
    while (end < keys.size() && keys[end] == keys[begin]) ++end;
    pairs.push_back({.truth = static_cast<std::int32_t>(keys[begin] >> 32),
                     .predicted = static_cast<std::int32_t>(keys[begin] & 0xffff'ffffU),
                     .count = static_cast<std::int64_t>(end - begin)});
  }
  return pairs;
}

std::optional<double> mean_recall(const std::vector<ImageClassMetrics>& per_class) {
  double sum = 0;
  std::size_t count = 0;
  for (const ImageClassMetrics& one : per_class) {
    const std::optional<double> recall = one.recall().value();
    if (!recall) continue;
    sum += *recall;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace

std::optional<double> ImageClassMetrics::f1() const {
  const std::int64_t both = image_count + predicted_count;
  if (both == 0) return std::nullopt;
  return static_cast<double>(2 * hit_count) / static_cast<double>(both);
}

ClassificationMetrics classification_metrics(const std::vector<ClassOutcome>& outcomes,
                                             const Categories& categories) {
  ClassificationMetrics metrics;
  for (const Category& one : categories) {
    metrics.per_class.push_back({.category_id = one.id, .name = one.name});
  }
  metrics.image_count = static_cast<std::int64_t>(outcomes.size());
  metrics.top5_labels = static_cast<int>(std::min(kBestLabels, categories.size()));
  metrics.top1.of = metrics.top5.of = metrics.image_count;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const ClassOutcome& one = outcomes[i];
    RETINA_CHECK(i == 0 || outcomes[i - 1].image_id < one.image_id, "image ", one.image_id);
    const bool is_hit = one.is_hit();
    if (is_hit) ++metrics.top1.hits;
    if (one.rank < metrics.top5_labels) ++metrics.top5.hits;
    metrics.loss += one.loss;
    ImageClassMetrics& truth = metrics.per_class.at(static_cast<std::size_t>(one.label));
    ++truth.image_count;
    if (is_hit) ++truth.hit_count;
    ++metrics.per_class.at(static_cast<std::size_t>(one.predicted())).predicted_count;
    metrics.reliability[equal_width_bin(one.confidence(), kReliabilityBinCount, true)].add(
        one.confidence(), is_hit);
  }
  if (!outcomes.empty()) metrics.loss /= static_cast<double>(outcomes.size());
  metrics.balanced_accuracy = mean_recall(metrics.per_class);
  metrics.confusion = count_pairs(outcomes);
  metrics.calibration_error = calibration_error(metrics.reliability);
  return metrics;
}

}  // namespace retina
