// One evaluation, matched once, whose AP can then be computed over any resample of its images in
// one pass over its detections; and the interval that AP has by chance, the bootstrap's over images
// (Efron & Tibshirani 1993, "An introduction to the bootstrap").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/matching.h"
#include "shared/evaluation/score/proportion.h"

namespace retina {

class ResampledEvaluation {
 public:
  // Matches the detections. Classes and images are in the order of `boxes` everywhere below.
  ResampledEvaluation(const BoxGroups& boxes, int thread_count);

  // Returns AP@[.50:.95] of each class over the data set that has image i `weights[i]` times; -1 if
  // it has no object. Equal to the bit to `evaluate_detections` on such a data set, copies of an
  // image being neighbours, unless an image has two detections of one class and score: their order
  // is not defined (ResampledEvaluation.EqualsTheEvaluationOfTheResampledImages).
  std::vector<double> class_aps(std::span<const std::uint32_t> weights) const;

  // Returns the number of images with objects of each class, crowd regions aside.
  std::vector<std::size_t> object_image_counts() const;
  // Returns the number of images with objects of any class.
  std::size_t images_with_objects() const { return images_with_objects_; }

  // Returns each image's mistakes, missed objects and false detections of all classes, summed over
  // the IoU thresholds. A class's detections count from the score on at which the class's F1 at IoU
  // .5 over all images is best, as it would be deployed; those of a class without any hit do not.
  const std::vector<std::int64_t>& image_mistakes() const { return image_mistakes_; }

 private:
  struct ImageObjects {
    std::uint32_t image = 0, count = 0;
  };
  // Ranked detections of a class, best first over all images.
  struct RankedClass {
    std::vector<ImageObjects> objects{};
    std::vector<std::uint32_t> images{};  // each detection's image
    std::vector<std::uint32_t> events{};  // places of those that hit or are ignored at any IoU
    // Per threshold: each event that is a hit or ignored there, as 2 * its number, + 1 if ignored.
    std::array<std::vector<std::uint32_t>, kIouThresholdCount> steps{};
  };
  struct Buffers;
  static double class_ap(const RankedClass& ranked, std::span<const std::uint32_t> weights,
                         Buffers& buffers);

  std::vector<RankedClass> classes_;
  std::vector<std::int64_t> image_mistakes_;
  std::size_t images_with_objects_ = 0;
};

inline constexpr double kConfidence = .95;
inline constexpr std::uint64_t kResampleSeed = 1993;  // of the draws: they repeat to the bit
inline constexpr int kResamples = 1000;
// Least number of images with an object for an interval: with fewer, percentile intervals are too
// narrow.
inline constexpr std::size_t kFewestImages = 10;
// Most images of which an evaluation resamples its AP by itself, and how often: a tenth of a
// second.
inline constexpr int kQuickResamples = 200;
inline constexpr std::int64_t kMostResampledImages = 500;

// Returns how often each of the images is drawn in a resample of as many.
std::vector<std::uint32_t> draw_images(std::size_t image_count, std::size_t resample);
// Returns the mean over the classes that have objects; NaN if none has.
double mean_ap(const std::vector<double>& class_aps);

// Returns the 95 % percentile interval of `values`, in any order, ignoring those that are not
// finite; nothing if none is left. For B values and a tail of alpha = .025, the k-th smallest and
// the k-th largest with k = floor((B + 1) alpha), at least 1 (Efron & Tibshirani 1993, section
// 12.5).
std::optional<Interval> percentile_interval(std::vector<double> values);

// Returns the 95 % interval of AP@[.50:.95]; nothing with fewer than kFewestImages images with
// objects. `thread_count` 0: usable_cores(); the result never depends on it.
std::optional<Interval> ap_interval(const BoxGroups& boxes, int thread_count);

}  // namespace retina
