// What became of every detection and object at IoU .5: the images' half of explain_detections.
// Each pair's IoU is computed once for all questions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/evaluation/explain/error_split.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/matching.h"

namespace retina {

inline constexpr double kExplainedIou = .5;

// COCO's matching within a class at IoU .5, objects of all sizes.
enum class CocoOutcome : std::uint8_t {
  kUncounted,  // beyond the 100 best of its image and class: looked at nowhere
  kHit,
  kWrong,
  kIgnored,  // neither right nor wrong
};

struct DetectionOutcome {
  CocoOutcome coco = CocoOutcome::kUncounted;
  TideOutcome tide{};
};

struct TruthOutcome {
  bool crowd : 1 = false;
  bool counts : 1 = false;  // for COCO: no crowd, area in range
  bool coco_hit : 1 = false;
  bool tide_hit : 1 = false;     // by one of the best 100 detections of the image
  bool tide_missed : 1 = false;  // FaultKind::kMissed
};

// By the slots of `boxes`.
struct MatchOutcomes {
  const BoxGroups& boxes;
  std::vector<DetectionOutcome> detection{};
  std::vector<TruthOutcome> truth{};

  // Of detections nothing but the default, which ImageMatcher replaces.
  explicit MatchOutcomes(const BoxGroups& boxes);
};

// How far a detection lies on an object of its image.
struct Overlap {
  std::uint32_t truth = 0;  // place within the image
  double iou = 0;           // > 0; with a crowd region over the detection's area alone
};

// An image with its outcomes in, for the questions that need pairs of boxes.
struct MatchedImage {
  std::uint32_t image = 0;  // place
  std::uint32_t first = 0, count = 0;
  std::uint32_t first_truth = 0, truth_count = 0;
  std::span<const std::uint32_t> overlap_begin{};  // [count + 1]
  std::span<const Overlap> overlaps{};             // by detection; objects in the file's order

  // Of a detection, by its rank in the image.
  std::span<const Overlap> of(std::uint32_t rank) const {
    return overlaps.subspan(overlap_begin[rank], overlap_begin[rank + 1] - overlap_begin[rank]);
  }
};

// Matches image after image, keeping its buffers. Matches of different images may run at once.
class ImageMatcher {
 public:
  explicit ImageMatcher(MatchOutcomes& outcomes);

  // What it returns holds until the next call.
  MatchedImage match(std::uint32_t image);

  // Of all images so far: what corrected classification faults hit.
  const std::vector<MovedHit>& moved() const { return moved_; }

 private:
  void limit_each_class(const MatchedImage& image);
  void measure_truths(const MatchedImage& image);
  void measure_overlaps(MatchedImage& image);
  void match_as_coco(const MatchedImage& image);
  void find_tide_hits(const MatchedImage& image);
  void find_tide_faults(const MatchedImage& image);
  std::uint32_t tide_count(const MatchedImage& image) const;
  bool is_of_class(const MatchedImage& image, std::uint32_t slot, const Overlap& overlap) const;
  TruthOutcome& object_of(const MatchedImage& image, const Overlap& overlap);

  const BoxGroups& boxes_;
  MatchOutcomes& outcomes_;
  std::vector<std::uint32_t> class_ranks_;  // [classes], zero between images
  std::vector<BoxEdges> edges_;             // [objects of the image]
  std::vector<std::uint32_t> overlap_begin_;
  std::vector<Overlap> overlaps_;
  std::vector<std::uint8_t> taken_;      // [objects of the image]
  std::vector<std::uint8_t> corrected_;  // [objects of the image]
  std::vector<MovedHit> moved_;
};

}  // namespace retina
