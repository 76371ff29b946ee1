#include "shared/evaluation/score/resampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "shared/base/error.h"
#include "shared/base/parallel.h"
#include "shared/evaluation/score/calibration.h"
#include "shared/evaluation/score/matching.h"
#include "shared/numeric/random.h"

namespace retina {

namespace {

// A detection after matching; masks over the thresholds for objects of all areas.
struct Ranked {
  double score = 0;
  std::uint32_t image = 0;
  std::uint16_t hit = 0, ignored = 0;
};

// Returns the score of the class's best F1 at IoU .5; infinity if no detection hits. `ranked`: best
// first.
double best_score(const std::vector<Ranked>& ranked, std::size_t object_count) {
  std::vector<ScoredDetection> scored;
  for (const Ranked& one : ranked) {
    if ((one.ignored & 1) == 0) scored.push_back({one.score, (one.hit & 1) != 0});
  }
  const auto best = best_threshold(scored, static_cast<std::int64_t>(object_count));
  return best ? best->score : std::numeric_limits<double>::infinity();
}

// Returns the number of hits needed to reach each recall, at least one.
std::array<std::uint32_t, kRecallThresholdCount> needed_hits(std::uint32_t object_count) {
  std::array<std::uint32_t, kRecallThresholdCount> needed{};
  const auto objects = static_cast<double>(object_count);
  std::uint32_t hits = 1;
  for (std::size_t r = 0; r < kRecallThresholdCount; ++r) {
    while (static_cast<double>(hits) / objects < recall_threshold(r)) ++hits;
    needed[r] = hits;
  }
  return needed;
}

}  // namespace

struct ResampledEvaluation::Buffers {
  // Per event: the weight of the detection itself, and of all detections up to it.
  std::vector<std::uint32_t> weights{}, totals{};
  // Per hit of a threshold.
  std::vector<std::uint32_t> hits{}, found{};
  std::vector<double> precisions{};
};

ResampledEvaluation::ResampledEvaluation(const BoxGroups& boxes, int thread_count) {
  const std::vector<Match> matches = match_detections(boxes, thread_count);
  std::vector<std::vector<Ranked>> ranked(boxes.class_count());
  classes_.resize(boxes.class_count());
  for (std::uint32_t image = 0; image < boxes.image_count(); ++image) {
    for (std::uint32_t g = boxes.truth_begin[image]; g < boxes.truth_begin[image + 1]; ++g) {
      if (boxes.object(g).iscrowd || !kCocoAreaRanges[0].has(boxes.object(g).area)) continue;
      auto& objects = classes_[boxes.truth_label[g]].objects;
      if (objects.empty() || objects.back().image != image) objects.push_back({.image = image});
      ++objects.back().count;
    }
  }
  for_each_parallel(boxes.class_count(), thread_count, [&](std::size_t label) {
    RankedClass& one = classes_[label];
    std::vector<Ranked>& sorted = ranked[label];
    for (const std::uint32_t slot : boxes.of_class(label)) {
      const Match& match = matches[slot];
      if (match.rank >= boxes.detection_limit()) continue;
      sorted.push_back({.score = boxes.score[slot],
                        .image = boxes.image_of(slot),
                        .hit = match.hit[0],
                        .ignored = match.ignored[0]});
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const Ranked& detection = sorted[i];
      one.images.push_back(detection.image);
      if ((detection.hit | detection.ignored) == 0) continue;
      const auto number = static_cast<std::uint32_t>(one.events.size());
      one.events.push_back(static_cast<std::uint32_t>(i));
      for (std::size_t t = 0; t < kIouThresholdCount; ++t) {
        if ((detection.ignored >> t & 1) != 0) {
          one.steps[t].push_back(2 * number + 1);
        } else if ((detection.hit >> t & 1) != 0) {
          one.steps[t].push_back(2 * number);
        }
      }
    }
  });

  // Mistakes = objects - hits + false detections.
  image_mistakes_.resize(boxes.image_count());
  std::vector<std::uint8_t> has_object(boxes.image_count());
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    std::size_t object_count = 0;
    for (const ImageObjects& one : classes_[label].objects) {
      image_mistakes_[one.image] += std::int64_t{one.count} * std::int64_t{kIouThresholdCount};
      has_object[one.image] = 1;
      object_count += one.count;
    }
    const double threshold = best_score(ranked[label], object_count);
    for (const Ranked& one : ranked[label]) {
      if (one.score < threshold) break;
      for (std::size_t t = 0; t < kIouThresholdCount; ++t) {
        if ((one.ignored >> t & 1) != 0) continue;
        image_mistakes_[one.image] += (one.hit >> t & 1) != 0 ? -1 : 1;
      }
    }
  }
  images_with_objects_ =
      static_cast<std::size_t>(std::count(has_object.begin(), has_object.end(), std::uint8_t{1}));
}

double ResampledEvaluation::class_ap(const RankedClass& ranked,
                                     std::span<const std::uint32_t> weights, Buffers& buffers) {
  std::uint32_t object_count = 0;
  for (const ImageObjects& one : ranked.objects) object_count += weights[one.image] * one.count;
  if (object_count == 0) return -1;
  const auto needed = needed_hits(object_count);

  buffers.weights.resize(ranked.events.size());
  buffers.totals.resize(ranked.events.size());
  std::uint32_t total = 0;
  std::size_t place = 0;
  for (std::size_t e = 0; e < ranked.events.size(); ++e) {
    for (; place <= ranked.events[e]; ++place) total += weights[ranked.images[place]];
    buffers.weights[e] = weights[ranked.images[place - 1]];
    buffers.totals[e] = total;
  }

  // Follows `evaluate_detections`, where a hit of weight w stands for w hits in a row: precision
  // rises from each to the next, so that the last one decides for all. A hit of weight 0 decides
  // nothing: it reaches no new recall, and precision is never better there than at the hit before
  // it.
  double threshold_sum = 0;
  for (const std::vector<std::uint32_t>& steps : ranked.steps) {
    buffers.hits.clear();
    buffers.found.clear();
    std::uint32_t hits = 0, ignored = 0;
    for (const std::uint32_t step : steps) {
      const std::uint32_t weight = buffers.weights[step / 2];
      if ((step & 1) != 0) {
        ignored += weight;
        continue;
      }
      hits += weight;
      buffers.hits.push_back(hits);
      buffers.found.push_back(buffers.totals[step / 2] - ignored);
    }
    const std::size_t count = buffers.hits.size();
    buffers.precisions.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      buffers.precisions[i] =
          static_cast<double>(buffers.hits[i]) /
          (static_cast<double>(buffers.found[i]) + std::numeric_limits<double>::epsilon());
    }
    for (std::size_t i = count; i-- > 1;) {
      buffers.precisions[i - 1] = std::max(buffers.precisions[i - 1], buffers.precisions[i]);
    }
    double sum = 0;
    std::size_t hit = 0;
    for (const std::uint32_t hit_count : needed) {
      while (hit < count && buffers.hits[hit] < hit_count) ++hit;
      if (hit == count) break;
      sum += buffers.precisions[hit];
    }
    threshold_sum += sum / static_cast<double>(kRecallThresholdCount);
  }
  return threshold_sum / static_cast<double>(kIouThresholdCount);
}

std::vector<double> ResampledEvaluation::class_aps(std::span<const std::uint32_t> weights) const {
  RETINA_CHECK(weights.size() == image_mistakes_.size(), weights.size(), " weights for ",
               image_mistakes_.size(), " images");
  Buffers buffers;
  std::vector<double> aps;
  aps.reserve(classes_.size());
  for (const RankedClass& one : classes_) aps.push_back(class_ap(one, weights, buffers));
  return aps;
}

std::vector<std::size_t> ResampledEvaluation::object_image_counts() const {
  std::vector<std::size_t> counts;
  for (const RankedClass& one : classes_) counts.push_back(one.objects.size());
  return counts;
}

// Returns how often each of the images is drawn in a resample of as many.
std::vector<std::uint32_t> draw_images(std::size_t image_count, std::size_t resample) {
  const RandomStream random{.seed = kResampleSeed,
                            .use = RandomUse::kResample,
                            .stream = static_cast<std::uint32_t>(resample)};
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

std::optional<Interval> percentile_interval(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double tail = (1 - kConfidence) / 2;
  // The summand keeps 1001 times .025 from being just below a whole number.
  const double place = static_cast<double>(values.size() + 1) * tail + 1e-9;
  const std::size_t k =
      std::clamp<std::size_t>(static_cast<std::size_t>(place), 1, (values.size() + 1) / 2);
  return Interval{.low = values[k - 1], .high = values[values.size() - k]};
}

std::optional<Interval> ap_interval(const BoxGroups& boxes, int thread_count) {
  const ResampledEvaluation matched(boxes, thread_count);
  if (matched.images_with_objects() < kFewestImages) return std::nullopt;
  std::vector<double> aps(kQuickResamples);
  for_each_parallel(kQuickResamples, thread_count, [&](std::size_t resample) {
    aps[resample] = mean_ap(matched.class_aps(draw_images(boxes.image_count(), resample)));
  });
  return percentile_interval(std::move(aps));
}

}  // namespace retina
