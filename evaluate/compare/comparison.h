// Two evaluations of the same images side by side: how their metrics differ, whether chance
// explains it, and which images got better or worse; as text, too: tables for a terminal, and
// compare.json. No LibTorch.
//
// Chance: the paired bootstrap over images (Efron & Tibshirani 1993, "An introduction to the
// bootstrap", chapters 6 and 13). The images are drawn with replacement, the same draw for both
// evaluations, and both are scored on it; the 95 % interval is that of the percentiles of the
// differences. It covers the choice of images, not the training's seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/resampling.h"

namespace retina {

struct ComparisonOptions {
  int resample_count = kResamples;
  std::size_t fewest_images = kFewestImages;               // with an object, for an interval
  std::uint32_t detection_limit = kMaxDetectionsPerImage;  // as in BoxGroups
  int thread_count = 0;                        // 0: usable_cores(); the result never depends on it
  std::array<std::string, 2> names{"A", "B"};  // the detections' names in errors
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
  std::optional<Interval> ap_interval{};  // interval of the difference of stats[kAp]
  // Intervals of the difference of each per_class[i].stats[kAp]. A resample without an object of
  // the class does not count for it and, as in COCO, is left out of the mean over the classes.
  std::vector<std::optional<Interval>> class_intervals{};
  std::vector<ImageChange> images{};  // ascending id
};

// Compares two sets of detections. Throws as evaluate_detections.
Comparison compare_detections(const Instances& truth, const std::vector<Detection>& a,
                              const std::vector<Detection>& b,
                              const ComparisonOptions& options = {});

// Return the places in `images` of those that got better, or worse: the largest change first;
// equally large ones in ascending image id.
std::vector<std::size_t> better_images(const Comparison& comparison);
std::vector<std::size_t> worse_images(const Comparison& comparison);

// Names of the compared evaluations, in the user's words.
struct ComparedNames {
  std::string a{}, b{}, truth{};
  std::string page_a{}, page_b{};  // links from the comparison's page to their own; empty: none
};

// Writes the names' fields of compare.json.
void write_names(JsonWriter& json, const ComparedNames& names);
// Returns the names as the first lines of a terminal's text; `counts` are those of the truth.
std::string names_text(const ComparedNames& names, const std::string& counts);

// A metric of both evaluations; nothing where there is nothing to measure.
struct MetricChange {
  std::string name{};
  std::optional<double> a{}, b{};
  std::optional<Interval> interval{};  // interval of b - a
};
// Returns a table for terminals, `title` above the names; a "*" marks intervals that exclude 0.
// Control characters of names are escaped.
std::string changes_table(const std::string& title, const std::vector<MetricChange>& changes);
// Returns the number of classes whose interval excludes 0, in a sentence.
std::string clear_intervals_text(const std::vector<std::optional<Interval>>& class_intervals);

// Returns tables for terminals: the 12 numbers, the classes by the size of their change, and the
// number of images that changed.
std::string comparison_text(const ComparedNames& names, const Comparison& comparison);

// Returns the whole comparison as compare.json, each image's scores too.
std::string comparison_json(const ComparedNames& names, const Comparison& comparison);

// Return the explanations for the reader of the intervals, and of the images' mistakes.
std::string interval_note(const Comparison& comparison);
std::string image_note();

}  // namespace retina
