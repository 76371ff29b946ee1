#include "shared/evaluation/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "shared/base/parallel.h"
#include "shared/base/random.h"
#include "shared/evaluation/compare/resampling.h"

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

}  // namespace retina
