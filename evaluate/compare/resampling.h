// One evaluation, matched once, whose AP can then be computed over any resample of its images in
// one pass over its detections: the inner half of `compare_detections`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/matching.h"

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

}  // namespace retina
