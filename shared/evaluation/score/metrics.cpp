#include "shared/evaluation/score/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "shared/base/parallel.h"
#include "shared/coco/categories.h"

namespace retina {

namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A detection that is a hit, or ignored, at some threshold but not ignored at all of them. The
// others, most of them, only shift the places of those after them.
struct Event {
  std::uint32_t place = 0;  // among those that are not ignored at all thresholds
  std::uint32_t rank = 0;   // in its image and class
  std::uint16_t hit = 0, ignored = 0;
};

// Events of one class in one area range over all images.
struct ClassEvents {
  std::vector<Event> events{};  // best first
  std::int64_t object_count = 0;
};

std::array<ClassEvents, kAreaRangeCount> class_events(const BoxGroups& boxes,
                                                      const std::vector<Match>& matches,
                                                      std::size_t label) {
  std::array<ClassEvents, kAreaRangeCount> areas;
  std::array<std::uint32_t, kAreaRangeCount> places{};
  for (const std::uint32_t slot : boxes.of_class(label)) {
    const Match& match = matches[slot];
    if (match.rank >= boxes.detection_limit()) continue;
    for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
      if (match.ignored[area] == kAllIouThresholds) continue;
      if ((match.hit[area] | match.ignored[area]) != 0) {
        areas[area].events.push_back({.place = places[area],
                                      .rank = match.rank,
                                      .hit = match.hit[area],
                                      .ignored = match.ignored[area]});
      }
      ++places[area];
    }
  }
  return areas;
}

// pycocotools' arrays along T and R for one class and area range.
struct Curves {
  std::vector<double> precision{};                  // [T, R]
  std::array<double, kIouThresholdCount> recall{};  // [T]
};

Curves measure(const ClassEvents& one) {
  const auto object_count = static_cast<double>(one.object_count);
  Curves curves{.precision = std::vector<double>(kIouThresholdCount * kRecallThresholdCount, 0)};
  // Precision at each hit. Between hits it only falls, so the hits alone decide.
  std::vector<double> precisions;
  for (std::size_t t = 0; t < kIouThresholdCount; ++t) {
    precisions.clear();
    std::uint32_t ignored_count = 0;
    for (const Event& event : one.events) {
      if ((event.ignored >> t & 1) != 0) {
        ++ignored_count;
      } else if ((event.hit >> t & 1) != 0) {
        const auto hit_count = static_cast<double>(precisions.size() + 1);
        const auto misses = static_cast<double>(event.place - ignored_count - precisions.size());
        precisions.push_back(hit_count /
                             (misses + hit_count + std::numeric_limits<double>::epsilon()));
      }
    }
    for (std::size_t i = precisions.size(); i-- > 1;) {
      precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
    }
    curves.recall[t] = static_cast<double>(precisions.size()) / object_count;
    double* const precision = curves.precision.data() + t * kRecallThresholdCount;
    std::size_t hit = 0;
    for (std::size_t r = 0; r < kRecallThresholdCount; ++r) {
      while (hit < precisions.size() &&
             static_cast<double>(hit + 1) / object_count < recall_threshold(r)) {
        ++hit;
      }
      if (hit == precisions.size()) break;
      precision[r] = precisions[hit];
    }
  }
  return curves;
}

// Returns the mean recall over the thresholds at a lower limit of detections. Dropping the rest
// changes nothing for the others: a detection's match never depends on worse ones.
double mean_recall(const ClassEvents& one, std::uint32_t limit) {
  std::array<double, kIouThresholdCount> recalls{};
  for (const Event& event : one.events) {
    if (event.rank >= limit) continue;
    const unsigned hits = event.hit & ~unsigned{event.ignored};
    for (std::size_t t = 0; t < kIouThresholdCount; ++t) recalls[t] += hits >> t & 1;
  }
  for (double& recall : recalls) recall /= static_cast<double>(one.object_count);
  return mean_of(recalls);
}

// Fills the numbers of one class that an area range decides.
void fill_stats(ClassMetrics& metrics, const ClassEvents& events, std::size_t area) {
  if (events.object_count == 0) return;
  constexpr std::array kPrecisionOf{kAp, kApSmall, kApMedium, kApLarge};
  constexpr std::array kRecallOf{kAr100, kArSmall, kArMedium, kArLarge};
  constexpr std::size_t kAt50 = 0, kAt75 = 5;  // places among the thresholds
  Curves curves = measure(events);
  std::array<double, kIouThresholdCount> means{};  // over recalls
  for (std::size_t t = 0; t < kIouThresholdCount; ++t) {
    means[t] = mean_of(
        std::span(curves.precision).subspan(t * kRecallThresholdCount, kRecallThresholdCount));
  }
  metrics.stats[kPrecisionOf[area]] = mean_of(means);
  metrics.stats[kRecallOf[area]] = mean_of(curves.recall);
  if (area != 0) return;
  metrics.stats[kAp50] = means[kAt50];
  metrics.stats[kAp75] = means[kAt75];
  metrics.stats[kAr1] = mean_recall(events, 1);
  metrics.stats[kAr10] = mean_recall(events, 10);
  metrics.precision = std::move(curves.precision);
}

// Returns the unknown categories in ascending order, each once.
std::vector<std::int64_t> unknown_categories(const BoxGroups& boxes) {
  const CategoryMap known(boxes.truth().categories);
  std::set<std::int64_t> ids;
  for (const Detection& one : boxes.detections()) {
    if (!known.label_of(one.category_id)) ids.insert(one.category_id);
  }
  return {ids.begin(), ids.end()};
}

// Fills the counts, before anything is matched. Returns the number of objects of each class that
// count in each area range.
std::vector<std::array<std::int64_t, kAreaRangeCount>> count_boxes(const BoxGroups& boxes,
                                                                   CocoMetrics& metrics) {
  metrics.image_count = static_cast<std::int64_t>(boxes.image_count());
  metrics.detection_count = static_cast<std::int64_t>(boxes.detections().size());
  metrics.unknown_category_count =
      static_cast<std::int64_t>(boxes.detections().size() - boxes.entry.size());
  if (metrics.unknown_category_count > 0) metrics.unknown_category_ids = unknown_categories(boxes);
  for (const Detection& one : boxes.detections()) {
    metrics.low_score_count += one.score <= 0 ? 1 : 0;
    metrics.high_score_count += one.score > 1 ? 1 : 0;
    metrics.empty_box_count += is_empty(one.bbox) ? 1 : 0;
  }
  const CategoryMap categories(boxes.truth().categories);
  for (const Category& category : categories.all()) {
    const std::size_t label = metrics.per_class.size();
    ClassMetrics one{.category_id = category.id,
                     .name = category.name,
                     .detection_count = static_cast<std::int64_t>(boxes.of_class(label).size())};
    one.stats.fill(-1);
    metrics.per_class.push_back(std::move(one));
  }
  std::vector<std::array<std::int64_t, kAreaRangeCount>> counts(boxes.class_count());
  std::vector<std::uint32_t> of_image(boxes.class_count());  // zero between images
  for (std::size_t image = 0; image < boxes.image_count(); ++image) {
    const std::size_t begin = boxes.truth_begin[image], end = boxes.truth_begin[image + 1];
    for (std::size_t g = begin; g < end; ++g) {
      if (boxes.object(g).iscrowd) continue;
      metrics.most_objects = std::max(metrics.most_objects, ++of_image[boxes.truth_label[g]]);
    }
    for (std::size_t g = begin; g < end; ++g) of_image[boxes.truth_label[g]] = 0;
  }
  for (std::size_t g = 0; g < boxes.annotation.size(); ++g) {
    const Annotation& one = boxes.object(g);
    const std::size_t label = boxes.truth_label[g];
    if (is_empty(one.bbox)) ++metrics.empty_box_count;
    if (one.iscrowd) {
      ++metrics.per_class[label].crowd_count;
      continue;
    }
    ++metrics.per_class[label].object_count;
    ++metrics.object_count;
    metrics.has_annotation_0 |= one.id == 0;
    for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
      if (kCocoAreaRanges[area].has(one.area)) ++counts[label][area];
    }
  }
  return counts;
}

}  // namespace

CocoMetrics evaluate_detections(const Instances& truth, const std::vector<Detection>& detections) {
  return evaluate_detections(BoxGroups(truth, detections));
}

CocoMetrics evaluate_detections(const BoxGroups& boxes, int thread_count) {
  CocoMetrics metrics;
  metrics.detection_limit = boxes.detection_limit();
  const auto object_counts = count_boxes(boxes, metrics);
  const std::vector<Match> matches = match_detections(boxes, thread_count);
  for_each_parallel(boxes.class_count(), thread_count, [&](std::size_t label) {
    auto areas = class_events(boxes, matches, label);
    for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
      areas[area].object_count = object_counts[label][area];
      fill_stats(metrics.per_class[label], areas[area], area);
    }
  });

  // Means over the classes that have something to find.
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
