// Outcomes of every detection and object at IoU .5: the part of explain_detections() that goes
// image by image. Each pair's IoU is computed once for all questions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evaluate/explain/error_split.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/matching.h"

namespace retina {

inline constexpr double kExplainedIou = .5;

// Outcome of COCO's matching within a class at IoU .5, objects of all sizes.
enum class CocoOutcome : std::uint8_t {
  kUncounted,  // beyond the detection limit of its image and class
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
  bool counts : 1 = false;  // counts for COCO: not a crowd, area in range
  bool coco_hit : 1 = false;
  bool tide_hit : 1 = false;     // by one of the image's detection_limit() best
  bool tide_missed : 1 = false;  // no correction of a detection would find it
};

// Outcomes, indexed by the slots of `boxes`, which must outlive them.
struct MatchOutcomes {
  const BoxGroups& boxes;
  std::vector<DetectionOutcome> detection{};
  std::vector<TruthOutcome> truth{};

  // Fills in COCO's outcomes; ImageMatcher adds TIDE's. `thread_count` 0: usable_cores().
  MatchOutcomes(const BoxGroups& boxes, int thread_count);
};

// Overlap of a detection with an object of its image.
struct Overlap {
  std::uint32_t truth = 0;  // the object's place within the image
  double iou = 0;           // > 0; of a crowd region: the share of the detection inside it
};

// An image with its outcomes, for questions about pairs of boxes.
struct MatchedImage {
  std::uint32_t image = 0;                         // its place in BoxGroups
  std::uint32_t first = 0, count = 0;              // slots of its detections
  std::uint32_t first_truth = 0, truth_count = 0;  // slots of its objects
  std::span<const std::uint32_t> overlap_begin{};  // [count + 1] places in `overlaps`
  std::span<const Overlap> overlaps{};             // by detection; objects in the file's order

  // Returns the overlaps of the detection of this rank in the image, 0 the best; of a kUncounted
  // one, none.
  std::span<const Overlap> of(std::uint32_t rank) const {
    return overlaps.subspan(overlap_begin[rank], overlap_begin[rank + 1] - overlap_begin[rank]);
  }
};

// Matches image after image in buffers that are reused. Several matchers may work on different
// images of the same outcomes at once.
class ImageMatcher {
 public:
  explicit ImageMatcher(MatchOutcomes& outcomes) : boxes_(outcomes.boxes), outcomes_(outcomes) {}

  // Matches the image at place `image`, adding TIDE's outcomes; the result is valid until the next
  // call.
  MatchedImage match(std::uint32_t image);

  // Returns the hits that classification faults would make if corrected, of all images so far.
  const std::vector<MovedHit>& moved() const { return moved_; }

 private:
  void measure_overlaps(MatchedImage& image);
  void find_tide_hits(const MatchedImage& image);
  void find_tide_faults(const MatchedImage& image);
  std::uint32_t tide_count(const MatchedImage& image) const;
  bool is_of_class(const MatchedImage& image, std::uint32_t slot, const Overlap& overlap) const;
  TruthOutcome& object_of(const MatchedImage& image, const Overlap& overlap);

  const BoxGroups& boxes_;
  MatchOutcomes& outcomes_;
  std::vector<BoxEdges> edges_;  // [objects of the image]
  std::vector<std::uint32_t> overlap_begin_;
  std::vector<Overlap> overlaps_;
  std::vector<std::uint8_t> corrected_;  // [objects of the image] 1: aimed at, 2: corrected to hit
  std::vector<MovedHit> moved_;
};

}  // namespace retina
