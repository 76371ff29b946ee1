#include "shared/evaluation/score/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/parallel.h"
#include "shared/coco/categories.h"

namespace retina {

namespace {

constexpr std::size_t kLimitCount = 3;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A detection that is a hit, or ignored, at some threshold but not ignored at all of them. The
// others, most of them, only shift the places of those after them.
struct Event {
  double score = 0;
  std::uint32_t place = 0;  // among those that are not ignored at all thresholds
  std::uint32_t rank = 0;   // in its image and class
  std::uint16_t hit = 0, ignored = 0;
};

// Events of one class in one area range over all images, with a limit of detections.
struct ClassEvents {
  std::vector<Event> events{};  // best first
  std::int64_t object_count = 0;
  double first_score = 0;  // of the best detection, whatever its outcome
};

std::array<ClassEvents, kAreaRangeCount> class_events(const BoxGroups& boxes,
                                                      const std::vector<Match>& matches,
                                                      std::size_t label, std::uint32_t limit,
                                                      unsigned all_thresholds) {
  std::array<ClassEvents, kAreaRangeCount> areas;
  std::array<std::uint32_t, kAreaRangeCount> places{};
  const auto slots = boxes.of_class(label);
  for (const std::uint32_t slot : slots) {
    const Match& match = matches[slot];
    if (match.rank >= limit) continue;
    for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
      const unsigned ignored = match.ignored[area] & all_thresholds;
      if (ignored == all_thresholds) continue;
      if ((match.hit[area] | ignored) != 0) {
        areas[area].events.push_back({.score = boxes.score[slot],
                                      .place = places[area],
                                      .rank = match.rank,
                                      .hit = match.hit[area],
                                      .ignored = static_cast<std::uint16_t>(ignored)});
      }
      ++places[area];
    }
  }
  for (ClassEvents& one : areas) one.first_score = slots.empty() ? 0 : boxes.score[slots.front()];
  return areas;
}

// pycocotools' arrays along T and R for one class, area range and limit of detections.
struct Curves {
  std::vector<double> precision{}, scores{};  // [T, R]
  std::vector<double> recall{};               // [T]
};

Curves measure(const ClassEvents& one, std::size_t threshold_count) {
  const auto object_count = static_cast<double>(one.object_count);
  Curves curves{.precision = std::vector<double>(threshold_count * kRecallThresholdCount, 0),
                .scores = std::vector<double>(threshold_count * kRecallThresholdCount, 0),
                .recall = std::vector<double>(threshold_count, 0)};
  // Values at each hit. Between hits precision only falls, so the hits alone decide.
  std::vector<double> precisions, scores;
  for (std::size_t t = 0; t < threshold_count; ++t) {
    precisions.clear();
    scores.clear();
    std::uint32_t ignored_count = 0;
    for (const Event& event : one.events) {
      if ((event.ignored >> t & 1) != 0) {
        ++ignored_count;
      } else if ((event.hit >> t & 1) != 0) {
        const auto hit_count = static_cast<double>(precisions.size() + 1);
        const auto misses = static_cast<double>(event.place - ignored_count - precisions.size());
        precisions.push_back(hit_count /
                             (misses + hit_count + std::numeric_limits<double>::epsilon()));
        scores.push_back(event.score);
      }
    }
    for (std::size_t i = precisions.size(); i-- > 1;) {
      precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
    }
    curves.recall[t] = static_cast<double>(precisions.size()) / object_count;
    double* const precision = curves.precision.data() + t * kRecallThresholdCount;
    double* const score = curves.scores.data() + t * kRecallThresholdCount;
    std::size_t hit = 0;
    for (std::size_t r = 0; r < kRecallThresholdCount; ++r) {
      while (hit < precisions.size() &&
             static_cast<double>(hit + 1) / object_count < recall_threshold(r)) {
        ++hit;
      }
      if (hit == precisions.size()) break;
      precision[r] = precisions[hit];
      score[r] = scores[hit];
    }
    // The first detection reaches recall 0, hit or not.
    score[0] = one.first_score;
  }
  return curves;
}

// Returns the mean recall over the thresholds at a lower limit of detections. Dropping the rest
// changes nothing for the others: a detection's match never depends on worse ones.
double mean_recall(const ClassEvents& one, std::uint32_t limit, std::size_t threshold_count) {
  std::vector<double> recalls(threshold_count, 0);
  for (const Event& event : one.events) {
    if (event.rank >= limit) continue;
    const unsigned hits = event.hit & ~unsigned{event.ignored};
    for (std::size_t t = 0; t < threshold_count; ++t) recalls[t] += hits >> t & 1;
  }
  for (double& recall : recalls) recall /= static_cast<double>(one.object_count);
  return mean_of(recalls);
}

// Returns the place of a threshold among the options', if it is there.
std::optional<std::size_t> place_of(const std::vector<double>& thresholds, double wanted) {
  const auto found = std::find(thresholds.begin(), thresholds.end(), wanted);
  if (found == thresholds.end()) return std::nullopt;
  return static_cast<std::size_t>(found - thresholds.begin());
}

class Accumulator {
 public:
  Accumulator(const MetricsOptions& options, std::size_t class_count, CocoMetrics& metrics)
      : options_(options),
        threshold_count_(options.matching.iou_thresholds.size()),
        class_count_(class_count),
        metrics_(metrics) {
    if (!options_.with_arrays) return;
    const std::size_t cells = class_count * kAreaRangeCount * kLimitCount;
    metrics_.arrays.recall.assign(threshold_count_ * cells, -1);
    metrics_.arrays.precision.assign(threshold_count_ * kRecallThresholdCount * cells, -1);
    metrics_.arrays.scores = metrics_.arrays.precision;
  }

  // Adds one class in one area range; different classes may be added from different threads.
  // `events` with the largest limit.
  void add(const ClassEvents& events, std::size_t label, std::size_t area) const {
    if (events.object_count == 0) return;
    constexpr std::array<std::size_t, kAreaRangeCount> kPrecisionOf{kAp, kApSmall, kApMedium,
                                                                    kApLarge};
    constexpr std::array<std::size_t, kAreaRangeCount> kRecallOf{kAr100, kArSmall, kArMedium,
                                                                 kArLarge};
    ClassMetrics& metrics = metrics_.per_class[label];
    Curves curves = measure(events, threshold_count_);
    const std::vector<double> means = means_of(curves);
    metrics.stats[kPrecisionOf[area]] = mean_of(means);
    metrics.stats[kRecallOf[area]] = mean_of(curves.recall);
    if (options_.with_arrays) store(curves, label, area, kLimitCount - 1);
    if (area != 0) return;

    const auto& thresholds = options_.matching.iou_thresholds;
    if (const auto t = place_of(thresholds, .5)) metrics.stats[kAp50] = means[*t];
    if (const auto t = place_of(thresholds, .75)) metrics.stats[kAp75] = means[*t];
    metrics.stats[kAr1] = mean_recall(events, options_.detection_limits[0], threshold_count_);
    metrics.stats[kAr10] = mean_recall(events, options_.detection_limits[1], threshold_count_);
    metrics.precision = std::move(curves.precision);
  }

  // Adds the arrays alone, for limit number `limit` of detections.
  void add_arrays(const ClassEvents& events, std::size_t label, std::size_t area,
                  std::size_t limit) const {
    if (events.object_count > 0) store(measure(events, threshold_count_), label, area, limit);
  }

 private:
  // Returns the means over recalls, [T].
  std::vector<double> means_of(const Curves& curves) const {
    std::vector<double> means;
    for (std::size_t t = 0; t < threshold_count_; ++t) {
      means.push_back(mean_of(
          std::span(curves.precision).subspan(t * kRecallThresholdCount, kRecallThresholdCount)));
    }
    return means;
  }

  void store(const Curves& curves, std::size_t label, std::size_t area, std::size_t limit) const {
    const auto cell = [&](std::size_t row) {
      return ((row * class_count_ + label) * kAreaRangeCount + area) * kLimitCount + limit;
    };
    for (std::size_t t = 0; t < threshold_count_; ++t) {
      metrics_.arrays.recall[cell(t)] = curves.recall[t];
      for (std::size_t r = 0; r < kRecallThresholdCount; ++r) {
        const std::size_t row = t * kRecallThresholdCount + r;
        metrics_.arrays.precision[cell(row)] = curves.precision[row];
        metrics_.arrays.scores[cell(row)] = curves.scores[row];
      }
    }
  }

  const MetricsOptions& options_;
  std::size_t threshold_count_, class_count_;
  CocoMetrics& metrics_;
};

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
                                                                   const MatchingOptions& options,
                                                                   CocoMetrics& metrics) {
  metrics.image_count = static_cast<std::int64_t>(boxes.image_count());
  metrics.detection_count = static_cast<std::int64_t>(boxes.detections().size());
  metrics.unknown_category_count =
      static_cast<std::int64_t>(boxes.detections().size() - boxes.entry.size());
  if (metrics.unknown_category_count > 0) metrics.unknown_category_ids = unknown_categories(boxes);
  metrics.low_score_count = boxes.low_score_count();
  metrics.high_score_count = boxes.high_score_count();
  metrics.empty_box_count = boxes.empty_box_count();
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
      if (options.area_ranges[area].has(one.area)) ++counts[label][area];
    }
  }
  return counts;
}

}  // namespace

CocoMetrics evaluate_detections(const Instances& truth, const std::vector<Detection>& detections,
                                const MetricsOptions& options) {
  return evaluate_detections(
      BoxGroups(truth, detections, options.thread_count, options.detection_limits.back()), options);
}

CocoMetrics evaluate_detections(const BoxGroups& boxes, const MetricsOptions& given) {
  MetricsOptions options = given;
  options.detection_limits.back() = boxes.detection_limit();
  CocoMetrics metrics;
  metrics.detection_limit = boxes.detection_limit();
  const auto object_counts = count_boxes(boxes, options.matching, metrics);
  const std::vector<Match> matches =
      match_detections(boxes, options.matching, options.thread_count);
  const Accumulator accumulator(options, boxes.class_count(), metrics);
  const unsigned all_thresholds = (1U << options.matching.iou_thresholds.size()) - 1;
  for_each_parallel(boxes.class_count(), options.thread_count, [&](std::size_t label) {
    for (std::size_t m = options.with_arrays ? 0 : kLimitCount - 1; m < kLimitCount; ++m) {
      auto areas = class_events(boxes, matches, label, options.detection_limits[m], all_thresholds);
      for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
        areas[area].object_count = object_counts[label][area];
        if (m + 1 == kLimitCount) {
          accumulator.add(areas[area], label, area);
        } else {
          accumulator.add_arrays(areas[area], label, area, m);
        }
      }
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
