#include "shared/evaluation/metrics.h"

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
#include "shared/evaluation/id_places.h"

namespace retina {

namespace {

constexpr std::size_t kLimitCount = 3;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

constexpr std::uint32_t kNoClass = std::numeric_limits<std::uint32_t>::max();

// Boxes by class, within it by image, within that in their order in the file. Boxes are named by
// their place in the file.
class Groups {
 public:
  // The class (kNoClass: leave it out) and image of box i.
  void add(std::uint32_t label, std::uint32_t image) {
    labels_.push_back(label);
    images_.push_back(image);
  }
  void reserve(std::size_t count) {
    labels_.reserve(count);
    images_.reserve(count);
  }

  // Two counting sorts: images first, then classes, each of which keeps the order before.
  void sort(std::size_t class_count, std::size_t image_count) {
    std::vector<std::uint32_t> by_image(labels_.size());
    std::vector<std::uint32_t> next(image_count + 1, 0);
    for (const std::uint32_t image : images_) ++next[image + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (std::uint32_t i = 0; i < labels_.size(); ++i) by_image[next[images_[i]]++] = i;

    class_begin_.assign(class_count + 1, 0);
    for (const std::uint32_t label : labels_) {
      if (label != kNoClass) ++class_begin_[label + 1];
    }
    std::partial_sum(class_begin_.begin(), class_begin_.end(), class_begin_.begin());
    next.assign(class_begin_.begin(), class_begin_.end());
    order_.resize(class_begin_.back());
    for (const std::uint32_t i : by_image) {
      if (labels_[i] != kNoClass) order_[next[labels_[i]]++] = i;
    }
    labels_ = {};
  }

  std::span<const std::uint32_t> of_class(std::size_t label) const {
    return std::span(order_).subspan(class_begin_[label],
                                     class_begin_[label + 1] - class_begin_[label]);
  }
  std::uint32_t image_of(std::uint32_t box) const { return images_[box]; }

 private:
  std::vector<std::uint32_t> labels_, images_, order_, class_begin_;
};

// The images [begin, end) of a class: what one thread matches at a time.
struct Task {
  std::size_t label = 0;
  std::span<const std::uint32_t> truths{}, found{};  // of these images
  std::vector<MatchedDetection> matched{};
  std::array<std::int64_t, kAreaRangeCount> object_counts{};
};
constexpr std::size_t kBoxesPerTask = 4096;

// Cuts each class into tasks of about as many boxes, between images.
std::vector<Task> make_tasks(const Groups& truths, const Groups& found, std::size_t class_count) {
  std::vector<Task> tasks;
  for (std::size_t label = 0; label < class_count; ++label) {
    auto class_truths = truths.of_class(label);
    auto class_found = found.of_class(label);
    const auto take = [](std::span<const std::uint32_t>& boxes, std::size_t count) {
      const auto taken = boxes.first(count);
      boxes = boxes.subspan(count);
      return taken;
    };
    while (class_found.size() > kBoxesPerTask) {
      // The image that is cut into goes to the next task, with all before it in this one.
      const std::uint32_t image = found.image_of(class_found[kBoxesPerTask]);
      const auto before = [&](const Groups& boxes) {
        return [&boxes, image](std::uint32_t box) { return boxes.image_of(box) < image; };
      };
      auto found_count = static_cast<std::size_t>(
          std::partition_point(class_found.begin(), class_found.end(), before(found)) -
          class_found.begin());
      if (found_count == 0) break;  // one image has more than a task: the rest is one task
      const auto truth_count = static_cast<std::size_t>(
          std::partition_point(class_truths.begin(), class_truths.end(), before(truths)) -
          class_truths.begin());
      tasks.push_back({.label = label,
                       .truths = take(class_truths, truth_count),
                       .found = take(class_found, found_count)});
    }
    tasks.push_back({.label = label, .truths = class_truths, .found = class_found});
  }
  return tasks;
}

// Everything that is scored, as the threads see it.
struct Scene {
  const Instances& truth;
  const std::vector<Detection>& detections;
  const MetricsOptions& options;
  Groups truths{}, found{};
};

// Matches image after image.
void match(const Scene& scene, Task& task) {
  ImageMatcher matcher(scene.options.matching);
  task.matched.reserve(task.found.size());
  std::vector<TruthBox> image_truths;
  std::vector<FoundBox> image_found;
  std::vector<std::uint32_t> order;
  const std::size_t limit = scene.options.detection_limits.back();
  std::size_t t = 0, f = 0;
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  while (t < task.truths.size() || f < task.found.size()) {
    const std::uint32_t image =
        std::min(t < task.truths.size() ? scene.truths.image_of(task.truths[t]) : kNone,
                 f < task.found.size() ? scene.found.image_of(task.found[f]) : kNone);
    image_truths.clear();
    for (; t < task.truths.size() && scene.truths.image_of(task.truths[t]) == image; ++t) {
      const Annotation& one = scene.truth.annotations[task.truths[t]];
      image_truths.push_back(
          {.box = one.bbox, .area = one.area, .crowd = one.iscrowd, .unmatchable = one.id == 0});
    }
    order.clear();
    for (; f < task.found.size() && scene.found.image_of(task.found[f]) == image; ++f) {
      order.push_back(task.found[f]);
    }
    const auto score = [&](std::uint32_t box) { return scene.detections[box].score; };
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    };
    if (!std::is_sorted(order.begin(), order.end(), better)) {
      std::sort(order.begin(), order.end(), better);
    }
    if (order.size() > limit) order.resize(limit);
    image_found.clear();
    for (const std::uint32_t box : order) {
      image_found.push_back({.box = scene.detections[box].bbox, .score = score(box)});
    }
    matcher.match(image_truths, image_found, task.matched, task.object_counts);
  }
}

// A class over all images, best detection first.
struct MatchedClass {
  std::vector<MatchedDetection> detections{};
  std::array<std::int64_t, kAreaRangeCount> object_counts{};
};

// One class, area range and limit of detections: pycocotools' arrays along T and R.
struct Curves {
  std::vector<double> precision{}, scores{};  // [T, R]
  std::vector<double> recall{};               // [T]
};

// A detection that is a hit, or ignored, at some threshold but not everywhere ignored.
struct Event {
  std::uint32_t place = 0;  // among those that are not ignored at all thresholds
  std::uint16_t hit = 0, ignored = 0;
  double score = 0;
};

Curves measure(const MatchedClass& one, std::size_t area, std::uint32_t limit,
               std::size_t threshold_count) {
  const auto object_count = static_cast<double>(one.object_counts[area]);
  Curves curves{.precision = std::vector<double>(threshold_count * kRecallThresholdCount, 0),
                .scores = std::vector<double>(threshold_count * kRecallThresholdCount, 0),
                .recall = std::vector<double>(threshold_count, 0)};
  // Most detections are wrong at every threshold: they only move the place of those behind them.
  const unsigned all_thresholds = (1U << threshold_count) - 1;
  std::vector<Event> events;
  double first_score = 0;
  bool any = false;
  std::uint32_t place = 0;
  for (const MatchedDetection& detection : one.detections) {
    if (detection.rank_in_image >= limit) continue;
    if (!any) first_score = detection.score;
    any = true;
    if ((detection.ignored[area] & all_thresholds) == all_thresholds) continue;
    if ((detection.hit[area] | detection.ignored[area]) != 0) {
      events.push_back({.place = place,
                        .hit = detection.hit[area],
                        .ignored = detection.ignored[area],
                        .score = detection.score});
    }
    ++place;
  }
  // At each hit. Between hits precision only falls, so the hits alone decide.
  std::vector<double> precisions, scores;
  for (std::size_t t = 0; t < threshold_count; ++t) {
    precisions.clear();
    scores.clear();
    std::uint32_t ignored_count = 0;
    for (const Event& event : events) {
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
    // Recall 0 is reached by the first detection, hit or not.
    score[0] = first_score;
  }
  return curves;
}

// Recalls at a limit of detections, [T]: measure() without the curves.
std::vector<double> recalls_of(const MatchedClass& one, std::size_t area, std::uint32_t limit,
                               std::size_t threshold_count) {
  std::vector<double> recalls(threshold_count, 0);
  for (const MatchedDetection& detection : one.detections) {
    if (detection.rank_in_image >= limit) continue;
    const unsigned hits = detection.hit[area] & ~unsigned{detection.ignored[area]};
    for (std::size_t t = 0; t < threshold_count; ++t) recalls[t] += hits >> t & 1;
  }
  for (double& recall : recalls) recall /= static_cast<double>(one.object_counts[area]);
  return recalls;
}

// Where a threshold stands among the options', if at all.
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

  // One class in one area range; different ones from different threads.
  void add(const MatchedClass& one, std::size_t label, std::size_t area) const {
    if (one.object_counts[area] == 0) return;
    constexpr std::array<std::size_t, kAreaRangeCount> kPrecisionOf{kAp, kApSmall, kApMedium,
                                                                    kApLarge};
    constexpr std::array<std::size_t, kAreaRangeCount> kRecallOf{kAr100, kArSmall, kArMedium,
                                                                 kArLarge};
    ClassMetrics& metrics = metrics_.per_class[label];
    Curves curves = measure(one, area, options_.detection_limits.back(), threshold_count_);
    metrics.stats[kPrecisionOf[area]] = mean_of(means_of(curves));
    metrics.stats[kRecallOf[area]] = mean_of(curves.recall);
    if (options_.with_arrays) {
      for (std::size_t m = 0; m + 1 < kLimitCount; ++m) {
        store(measure(one, area, options_.detection_limits[m], threshold_count_), label, area, m);
      }
      store(curves, label, area, kLimitCount - 1);
    }
    if (area != 0) return;

    const auto& thresholds = options_.matching.iou_thresholds;
    const std::vector<double> means = means_of(curves);
    if (const auto t = place_of(thresholds, .5)) metrics.stats[kAp50] = means[*t];
    if (const auto t = place_of(thresholds, .75)) metrics.stats[kAp75] = means[*t];
    for (const std::size_t m : {0, 1}) {
      metrics.stats[m == 0 ? kAr1 : kAr10] =
          mean_of(recalls_of(one, area, options_.detection_limits[m], threshold_count_));
    }
    metrics.precision = std::move(curves.precision);
  }

 private:
  // [T] means over recalls.
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

bool is_empty(const std::array<double, 4>& box) {
  return box[2] == 0 || box[3] == 0;
}

// Entry `first` is the first on an image that is not in the ground truth.
[[noreturn]] void fail_foreign_images(const std::vector<Detection>& detections, std::size_t first,
                                      const IdPlaces& images, std::size_t image_count) {
  std::set<std::int64_t> foreign;
  for (const Detection& one : detections) {
    if (images.place_of(one.image_id) == IdPlaces::kNone) foreign.insert(one.image_id);
  }
  const std::int64_t id = detections[first].image_id;
  std::string others;
  std::size_t named = 0;
  for (const std::int64_t other : foreign) {
    if (other == id) continue;
    if (++named > 5) break;
    others += cat(named == 1 ? "; nor are " : ", ", other);
  }
  if (foreign.size() > 6) others += cat(" and ", foreign.size() - 6, " more");
  throw Error(ErrorKind::kData,
              cat("detections: entry ", first, ": image id ", id,
                  " is not in the annotations (they have ", image_count, " images", others, ")"),
              "score detections against the annotations of the images they were made on");
}

// Sorts the annotations into `scene` and counts them.
void place_truths(Scene& scene, const CategoryMap& categories, const IdPlaces& images,
                  CocoMetrics& metrics) {
  scene.truths.reserve(scene.truth.annotations.size());
  for (const Annotation& annotation : scene.truth.annotations) {
    const auto label = categories.label_of(annotation.category_id);
    const auto image = images.place_of(annotation.image_id);
    RETINA_CHECK(label && image != IdPlaces::kNone, "annotation ", annotation.id, " dangles");
    scene.truths.add(static_cast<std::uint32_t>(*label), image);
    ClassMetrics& counts = metrics.per_class[static_cast<std::size_t>(*label)];
    ++(annotation.iscrowd ? counts.crowd_count : counts.object_count);
    if (!annotation.iscrowd) ++metrics.object_count;
    if (is_empty(annotation.bbox)) ++metrics.empty_box_count;
  }
}

// The same for the detections.
void place_detections(Scene& scene, const CategoryMap& categories, const IdPlaces& images,
                      CocoMetrics& metrics) {
  scene.found.reserve(scene.detections.size());
  for (std::size_t i = 0; i < scene.detections.size(); ++i) {
    const Detection& detection = scene.detections[i];
    const auto image = images.place_of(detection.image_id);
    if (image == IdPlaces::kNone) {
      fail_foreign_images(scene.detections, i, images, scene.truth.images.size());
    }
    if (detection.score <= 0) ++metrics.low_score_count;
    if (is_empty(detection.bbox)) ++metrics.empty_box_count;
    const auto label = categories.label_of(detection.category_id);
    if (label) {
      ++metrics.per_class[static_cast<std::size_t>(*label)].detection_count;
    } else {
      ++metrics.unknown_category_count;
    }
    scene.found.add(label ? static_cast<std::uint32_t>(*label) : kNoClass, image);
  }
}

}  // namespace

CocoMetrics evaluate_detections(const Instances& truth, const std::vector<Detection>& detections,
                                const MetricsOptions& options) {
  const std::size_t threshold_count = options.matching.iou_thresholds.size();
  RETINA_CHECK(threshold_count >= 1 && threshold_count <= kMaxIouThresholds, threshold_count,
               " IoU thresholds");
  RETINA_CHECK(std::max(detections.size(), truth.annotations.size()) <
                   std::numeric_limits<std::uint32_t>::max(),
               "too many boxes");
  const CategoryMap categories(truth.categories);
  const auto class_count = static_cast<std::size_t>(categories.size());
  const IdPlaces images = image_places(truth);
  const std::size_t image_count = truth.images.size();

  CocoMetrics metrics;
  metrics.image_count = static_cast<std::int64_t>(image_count);
  metrics.detection_count = static_cast<std::int64_t>(detections.size());
  for (const Category& category : categories.all()) {
    ClassMetrics one{.category_id = category.id, .name = category.name};
    one.stats.fill(-1);
    metrics.per_class.push_back(std::move(one));
  }
  Scene scene{.truth = truth, .detections = detections, .options = options};
  place_truths(scene, categories, images, metrics);
  place_detections(scene, categories, images, metrics);
  scene.truths.sort(class_count, image_count);
  scene.found.sort(class_count, image_count);

  // Images of a class are independent of each other, then classes are, then a class's area ranges.
  std::vector<Task> tasks = make_tasks(scene.truths, scene.found, class_count);
  for_each_parallel(tasks.size(), options.thread_count,
                    [&](std::size_t i) { match(scene, tasks[i]); });
  std::vector<MatchedClass> classes(class_count);
  std::vector<std::size_t> first_task(class_count + 1, 0);
  for (const Task& task : tasks) ++first_task[task.label + 1];
  std::partial_sum(first_task.begin(), first_task.end(), first_task.begin());
  for_each_parallel(class_count, options.thread_count, [&](std::size_t label) {
    MatchedClass& one = classes[label];
    std::size_t count = 0;
    for (std::size_t i = first_task[label]; i < first_task[label + 1]; ++i) {
      count += tasks[i].matched.size();
    }
    one.detections.reserve(count);
    for (std::size_t i = first_task[label]; i < first_task[label + 1]; ++i) {
      Task& task = tasks[i];
      one.detections.insert(one.detections.end(), task.matched.begin(), task.matched.end());
      task.matched = {};
      for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
        one.object_counts[area] += task.object_counts[area];
      }
    }
    std::stable_sort(one.detections.begin(), one.detections.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
  });
  const Accumulator accumulator(options, class_count, metrics);
  for_each_parallel(class_count * kAreaRangeCount, options.thread_count, [&](std::size_t i) {
    accumulator.add(classes[i / kAreaRangeCount], i / kAreaRangeCount, i % kAreaRangeCount);
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
