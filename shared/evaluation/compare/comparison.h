// Two evaluations of the same images side by side: how their metrics differ, whether chance
// explains it, and which images got better or worse; as text, too: tables for a terminal, and
// compare.json. No LibTorch.
//
// Chance: the paired bootstrap over images (Efron & Tibshirani 1993, "An introduction to the
// bootstrap", chapters 6 and 13). The images are drawn with replacement, the same draw for both
// evaluations, and both are scored on it; the 95 % interval is that of the percentiles of the
// differences. It covers the choice of images, not the training's seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/proportion.h"

namespace retina {

struct ComparisonOptions {
  int resample_count = 1000;
  double confidence = .95;
  std::uint64_t seed = 1993;  // of the draws: a comparison repeats to the bit
  // Least number of images with an object for an interval: with fewer, percentile intervals are too
  // narrow.
  std::size_t fewest_images = 10;
  std::uint32_t detection_limit = kMaxDetectionsPerImage;  // of BoxGroups
  int thread_count = 0;  // 0: usable_cores(); the result never depends on it
};

// Change of one image by ResampledEvaluation::image_mistakes(), the sum over the IoU thresholds:
// unlike an image's own F1 or AP, it does not let images with one object, or none, crowd out those
// with the largest changes.
struct ImageChange {
  std::int64_t image_id = 0;
  std::string file_name{};  // may be empty
  std::int64_t mistakes_a = 0, mistakes_b = 0;
  std::int64_t gain() const { return mistakes_a - mistakes_b; }
};

struct Comparison {
  CocoMetrics a{}, b{};
  ComparisonOptions options{};
  std::optional<Interval> ap_interval{};  // of the difference of stats[kAp]
  // Intervals of the difference of each per_class[i].stats[kAp]. A resample without an object of
  // the class does not count for it and, as in COCO, is left out of the mean over the classes.
  std::vector<std::optional<Interval>> class_intervals{};
  std::vector<ImageChange> images{};  // ascending id
};

// Compares two sets of detections. Throws as evaluate_detections.
Comparison compare_detections(const Instances& truth, const std::vector<Detection>& a,
                              const std::vector<Detection>& b,
                              const ComparisonOptions& options = {});

// Returns the percentile interval of `values`, in any order, ignoring those that are not finite;
// nothing if none is left. For B values and a tail of alpha, the k-th smallest and the k-th largest
// with k = floor((B + 1) alpha), at least 1 (Efron & Tibshirani 1993, section 12.5).
std::optional<Interval> percentile_interval(std::vector<double> values, double confidence);

// Returns the places in per_class of the classes with something to find, the largest change of AP
// first; equally large ones in ascending category id.
std::vector<std::size_t> classes_by_change(const Comparison& comparison);

// Return the places in `images` of those that got better, or worse: the largest change first;
// equally large ones in ascending image id.
std::vector<std::size_t> better_images(const Comparison& comparison);
std::vector<std::size_t> worse_images(const Comparison& comparison);

inline constexpr std::size_t kShownImages = 10;  // better images shown, and worse ones as many

// Names of the compared evaluations, in the user's words.
struct ComparedNames {
  std::string a{}, b{}, truth{};
  std::string page_a{}, page_b{};  // links from the comparison's page to their own; empty: none
};

// Writes the names' fields of compare.json.
void write_names(JsonWriter& json, const ComparedNames& names);

// Returns tables for terminals: the 12 numbers, the classes by the size of their change, the images
// that changed most. Control characters of names are escaped.
std::string comparison_text(const ComparedNames& names, const Comparison& comparison);

// Returns the whole comparison as compare.json, each image's scores too.
std::string comparison_json(const ComparedNames& names, const Comparison& comparison);

// Returns B - A of a metric for people: "+0.012"; "-" if there is nothing to find.
std::string change_text(double a, double b);

// Returns "-0.004 to +0.021"; empty without an interval.
std::string interval_text(const std::optional<Interval>& interval);

// Number of classes that have an interval, and number of these intervals that exclude 0.
struct IntervalCounts {
  std::size_t all = 0, clear = 0;
};
IntervalCounts count_intervals(const Comparison& comparison);

// Returns an image's mistakes as a mean over the IoU thresholds; mistakes_text() and gain_text()
// format it and its decrease.
double mean_mistakes(std::int64_t mistakes);
std::string mistakes_text(std::int64_t mistakes);
std::string gain_text(std::int64_t gain);

// Return the explanations for the reader of the intervals, and of the images' mistakes.
std::string interval_note(const Comparison& comparison);
std::string image_note();

}  // namespace retina
