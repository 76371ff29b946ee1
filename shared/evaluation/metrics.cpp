#include "shared/evaluation/metrics.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <span>
#include <thread>
#include <unordered_map>

#include "shared/base/cores.h"
#include "shared/base/error.h"
#include "shared/coco/categories.h"
#include "shared/evaluation/matching.h"

namespace retina {

namespace {

constexpr std::size_t kRecallThresholdCount = 101;
constexpr std::array<std::size_t, 3> kDetectionLimits{1, 10, kMaxDetectionsPerImage};

// numpy.linspace(0, 1, 101).
double recall_threshold(std::size_t place) {
  return place + 1 == kRecallThresholdCount ? 1.0 : static_cast<double>(place) * 0.01;
}

// A box of one class with the place of its image in ascending id order.
template <class Box>
struct Placed {
  std::size_t image = 0;
  Box box{};
};

struct ClassInput {
  std::vector<Placed<TruthBox>> truths;  // file order
  std::vector<Placed<FoundBox>> found;   // file order
};

// [area range][detection limit] or [area range], averaged over IoU thresholds where not said.
struct ClassCurves {
  std::array<std::array<double, kIouThresholdCount>, kAreaRangeCount> precision{};  // by threshold
  std::array<std::array<double, kDetectionLimits.size()>, kAreaRangeCount> recall{};
  std::array<bool, kAreaRangeCount> present{};
};

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Matches image after image. Both lists end up sorted by image, the detections also by score.
std::vector<MatchedDetection> match_images(
    ClassInput& input, std::array<std::int64_t, kAreaRangeCount>& object_counts) {
  auto& [truths, found] = input;
  std::stable_sort(truths.begin(), truths.end(),
                   [](const auto& a, const auto& b) { return a.image < b.image; });
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.image != b.image ? a.image < b.image : a.box.score > b.box.score;
  });
  ImageMatcher matcher;
  std::vector<MatchedDetection> matched;
  matched.reserve(found.size());
  std::vector<TruthBox> image_truths;
  std::vector<FoundBox> image_found;
  std::size_t t = 0, f = 0;
  while (t < truths.size() || f < found.size()) {
    const std::size_t image = std::min(t < truths.size() ? truths[t].image : SIZE_MAX,
                                       f < found.size() ? found[f].image : SIZE_MAX);
    image_truths.clear();
    image_found.clear();
    for (; t < truths.size() && truths[t].image == image; ++t) {
      image_truths.push_back(truths[t].box);
    }
    for (; f < found.size() && found[f].image == image; ++f) {
      if (image_found.size() < kMaxDetectionsPerImage) image_found.push_back(found[f].box);
    }
    matcher.match(image_truths, image_found, matched, object_counts);
  }
  return matched;
}

// Mean over recalls 0, .01, ..., 1 of the best precision at that recall or a higher one.
// `precisions[i]` is the precision at the (i + 1)-th hit; it is overwritten. Between hits precision
// only falls, so the hits alone decide.
double interpolated_precision(std::vector<double>& precisions, std::int64_t object_count) {
  for (std::size_t i = precisions.size(); i-- > 1;) {
    precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  }
  double sum = 0;
  std::size_t hit = 0;
  for (std::size_t r = 0; r < kRecallThresholdCount; ++r) {
    while (hit < precisions.size() &&
           static_cast<double>(hit + 1) / static_cast<double>(object_count) < recall_threshold(r)) {
      ++hit;
    }
    if (hit == precisions.size()) break;
    sum += precisions[hit];
  }
  return sum / static_cast<double>(kRecallThresholdCount);
}

// `sorted`: best first over all images.
void measure_area(const std::vector<MatchedDetection>& sorted, std::size_t area,
                  std::int64_t object_count, ClassCurves& curves) {
  std::array<std::array<double, kIouThresholdCount>, kDetectionLimits.size()> recalls{};
  std::vector<double> precisions;
  for (std::size_t t = 0; t < kIouThresholdCount; ++t) {
    std::array<std::int64_t, kDetectionLimits.size()> hits{};
    std::int64_t misses = 0;
    precisions.clear();
    for (const MatchedDetection& detection : sorted) {
      if ((detection.ignored[area] >> t & 1) != 0) continue;
      if ((detection.hit[area] >> t & 1) == 0) {
        ++misses;
        continue;
      }
      for (std::size_t m = 0; m < kDetectionLimits.size(); ++m) {
        if (detection.rank_in_image < kDetectionLimits[m]) ++hits[m];
      }
      const auto hit_count = static_cast<double>(precisions.size() + 1);
      precisions.push_back(hit_count / (static_cast<double>(misses) + hit_count +
                                        std::numeric_limits<double>::epsilon()));
    }
    for (std::size_t m = 0; m < kDetectionLimits.size(); ++m) {
      recalls[m][t] = static_cast<double>(hits[m]) / static_cast<double>(object_count);
    }
    curves.precision[area][t] = interpolated_precision(precisions, object_count);
  }
  for (std::size_t m = 0; m < kDetectionLimits.size(); ++m) {
    curves.recall[area][m] = mean_of(recalls[m]);
  }
}

std::array<double, kCocoStatCount> measure_class(ClassInput& input) {
  std::array<std::int64_t, kAreaRangeCount> object_counts{};
  std::vector<MatchedDetection> matched = match_images(input, object_counts);
  std::stable_sort(matched.begin(), matched.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  ClassCurves curves;
  for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
    curves.present[area] = object_counts[area] > 0;
    if (curves.present[area]) measure_area(matched, area, object_counts[area], curves);
  }
  std::array<double, kCocoStatCount> stats{};
  stats.fill(-1);
  if (curves.present[0]) {
    stats[kAp50] = curves.precision[0][0];
    stats[kAp75] = curves.precision[0][5];
    stats[kAr1] = curves.recall[0][0];
    stats[kAr10] = curves.recall[0][1];
  }
  constexpr std::array<std::size_t, kAreaRangeCount> kPrecisionOf{kAp, kApSmall, kApMedium,
                                                                  kApLarge};
  constexpr std::array<std::size_t, kAreaRangeCount> kRecallOf{kAr100, kArSmall, kArMedium,
                                                               kArLarge};
  for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
    if (!curves.present[area]) continue;
    stats[kPrecisionOf[area]] = mean_of(curves.precision[area]);
    stats[kRecallOf[area]] = curves.recall[area][2];
  }
  return stats;
}

// Calls `work(i)` for i in 0..count-1 from `thread_count` threads; rethrows the first exception.
template <class Work>
void for_each_parallel(std::size_t count, int thread_count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr problem;
  const auto run = [&] {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) work(i);
    } catch (...) {
      if (!failed.exchange(true)) problem = std::current_exception();
      next = count;
    }
  };
  const int wanted = thread_count > 0 ? thread_count : usable_cores();
  std::vector<std::jthread> helpers;
  for (int i = 1; i < std::min(wanted, static_cast<int>(count)); ++i) helpers.emplace_back(run);
  run();
  helpers.clear();
  if (problem) std::rethrow_exception(problem);
}

// Places of image ids in ascending order.
std::unordered_map<std::int64_t, std::size_t> image_places(const Instances& truth) {
  std::vector<std::int64_t> ids;
  for (const ImageInfo& image : truth.images) ids.push_back(image.id);
  std::sort(ids.begin(), ids.end());
  std::unordered_map<std::int64_t, std::size_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i) places.emplace(ids[i], i);
  return places;
}

}  // namespace

CocoMetrics evaluate_detections(const Instances& truth, const std::vector<Detection>& detections,
                                const MetricsOptions& options) {
  const CategoryMap categories(truth.categories);
  const auto places = image_places(truth);
  std::vector<ClassInput> inputs(static_cast<std::size_t>(categories.size()));

  CocoMetrics metrics;
  metrics.image_count = static_cast<std::int64_t>(places.size());
  metrics.detection_count = static_cast<std::int64_t>(detections.size());
  for (const Category& category : categories.all()) {
    metrics.per_class.push_back({.category_id = category.id, .name = category.name});
  }
  for (const Annotation& annotation : truth.annotations) {
    const auto label = categories.label_of(annotation.category_id);
    const auto image = places.find(annotation.image_id);
    RETINA_CHECK(label && image != places.end(), "annotation ", annotation.id, " dangles");
    const auto place = static_cast<std::size_t>(*label);
    inputs[place].truths.push_back({.image = image->second,
                                    .box = {.box = annotation.bbox,
                                            .area = annotation.area,
                                            .crowd = annotation.iscrowd,
                                            .unmatchable = annotation.id == 0}});
    ClassMetrics& counts = metrics.per_class[place];
    ++(annotation.iscrowd ? counts.crowd_count : counts.object_count);
    if (!annotation.iscrowd) ++metrics.object_count;
  }
  for (std::size_t i = 0; i < detections.size(); ++i) {
    const Detection& detection = detections[i];
    const auto image = places.find(detection.image_id);
    if (image == places.end()) {
      throw Error(ErrorKind::kData,
                  cat("detections: entry ", i, ": image id ", detection.image_id,
                      " is not in the annotations (they have ", places.size(), " images)"),
                  "score detections against the annotations of the images they were made on");
    }
    if (detection.score <= 0) ++metrics.low_score_count;
    const auto label = categories.label_of(detection.category_id);
    if (!label) {
      ++metrics.unknown_category_count;
      continue;
    }
    const auto place = static_cast<std::size_t>(*label);
    inputs[place].found.push_back(
        {.image = image->second, .box = {.box = detection.bbox, .score = detection.score}});
    ++metrics.per_class[place].detection_count;
  }

  for_each_parallel(inputs.size(), options.thread_count, [&](std::size_t place) {
    metrics.per_class[place].stats = measure_class(inputs[place]);
  });
  for (std::size_t stat = 0; stat < kCocoStatCount; ++stat) {
    std::vector<double> values;
    for (const ClassMetrics& one : metrics.per_class) {
      if (one.stats[stat] > -1) values.push_back(one.stats[stat]);
    }
    metrics.stats[stat] = values.empty() ? -1 : mean_of(values);
  }
  return metrics;
}

}  // namespace retina
