// COCO's bounding-box metrics: the 12 numbers of Lin et al. 2014 ("Microsoft COCO: Common objects
// in context") as pycocotools computes them, equal to it within rounding. No LibTorch: a program
// that links retina::metrics scores with
//
//   CocoMetrics metrics = evaluate_detections(read_instances("instances.json"),
//                                             read_results("results.json"));
//   std::cout << coco_summary_text(metrics);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/matching.h"

namespace retina {

// Places of the 12 numbers in `CocoMetrics::stats`, all in [0, 1]: pycocotools' order, part of
// metrics.json; never renumber.
enum CocoStat : std::size_t {
  kAp = 0,         // AP, mean over classes and IoUs .50:.05:.95
  kAp50 = 1,       // AP at IoU .50
  kAp75 = 2,       // AP at IoU .75
  kApSmall = 3,    // AP of objects of area in [0, 32^2] square pixels
  kApMedium = 4,   // [32^2, 96^2]
  kApLarge = 5,    // [96^2, 1e5^2]
  kAr1 = 6,        // recall, mean over the same, by 1 detection an image and class
  kAr10 = 7,       // by 10
  kAr100 = 8,      // by 100
  kArSmall = 9,    // by 100, of small objects
  kArMedium = 10,  // medium
  kArLarge = 11,   // large
};
inline constexpr std::size_t kCocoStatCount = 12;

// The metrics of one class.
struct ClassMetrics {
  int64_t category_id = 0;
  std::string name;
  std::array<double, kCocoStatCount> stats{};  // by CocoStat; -1: no object of that area
  // [10 IoU thresholds, 101 recalls] best precision at that recall or a higher one, for objects of
  // any area; empty if the class has none.
  std::vector<double> precision{};
  int64_t object_count = 0;     // ground truth without crowd regions
  int64_t crowd_count = 0;      // crowd regions
  int64_t detection_count = 0;  // all results of this class
};

struct CocoMetrics {
  std::array<double, kCocoStatCount> stats{};  // means of the classes' that are not -1; else -1
  std::vector<ClassMetrics> per_class;         // ascending category id
  int64_t image_count = 0;
  int64_t object_count = 0;
  int64_t detection_count = 0;         // all results given
  int64_t unknown_category_count = 0;  // ignored results: their category is not in the truth
  std::vector<int64_t> unknown_category_ids{};  // their ids, ascending
  int64_t low_score_count = 0;   // results of score 0 or less: ranked like all others
  int64_t high_score_count = 0;  // results of score above 1
  // The best detections of an image and class that count, and the most objects of one class in an
  // image: those beyond the limit cannot be found.
  std::uint32_t detection_limit = 0, most_objects = 0;
  int64_t empty_box_count = 0;    // results and objects without width or height: never a hit
  bool has_annotation_0 = false;  // an object has id 0: it is never found
  // Images that coco-pack quarantined, in none of the other numbers; filled by the caller.
  int64_t quarantined_count = 0;
};

// Scores `detections` against all images and categories of `truth`. Crowd regions are ignored, not
// missed; the k best of an image and class count (k = 1, 10, 100); equal scores keep the order of
// `detections`. As in pycocotools, an annotation with id 0 cannot be matched, and on equal IoUs the
// later box wins. Throws Error{kData} naming the image id if a detection's image is not in `truth`.
// Takes about 60 bytes a detection besides `detections`. Parity: tests/evaluation/metrics_test.cpp.
CocoMetrics evaluate_detections(const Instances& truth, const std::vector<Detection>& detections);
// Scores boxes that are grouped already, with their detection limit. `thread_count` 0:
// usable_cores(); the result never depends on it.
CocoMetrics evaluate_detections(const BoxGroups& boxes, int thread_count = 0);

}  // namespace retina
