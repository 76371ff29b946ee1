// Which detections of one image and one class hit which objects: COCO's greedy matching, for all
// IoU thresholds and area ranges at once. The inner half of `evaluate_detections`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace retina {

inline constexpr std::size_t kAreaRangeCount = 4;
inline constexpr std::size_t kRecallThresholdCount = 101;
inline constexpr std::size_t kIouThresholdCount = 10;         // COCO's
inline constexpr std::uint32_t kMaxDetectionsPerImage = 100;  // COCO's, of a class
inline constexpr std::size_t kMaxIouThresholds = 16;          // the bits of a mask

// Area in square pixels, both ends inclusive: an object of exactly 32^2 is small and medium.
struct AreaRange {
  double low = 0, high = 0;
  bool has(double area) const { return !(area < low) && !(area > high); }
};

// COCO's .50:.05:.95, the f64 values of numpy.linspace(.5, .95, 10), which a hit may just reach.
std::vector<double> coco_iou_thresholds();
// COCO's 0, .01, ..., 1: numpy.linspace(0, 1, 101).
inline double recall_threshold(std::size_t place) {
  return place + 1 == kRecallThresholdCount ? 1.0 : static_cast<double>(place) * 0.01;
}
// COCO's all, small, medium, large.
inline constexpr std::array<AreaRange, kAreaRangeCount> kCocoAreaRanges{
    {{0, 1e10}, {0, 32.0 * 32.0}, {32.0 * 32.0, 96.0 * 96.0}, {96.0 * 96.0, 1e10}}};

struct MatchingOptions {
  std::vector<double> iou_thresholds = coco_iou_thresholds();  // ascending, 1 to 16
  std::array<AreaRange, kAreaRangeCount> area_ranges = kCocoAreaRanges;
};

// A ground-truth object of the image and class.
struct TruthBox {
  std::array<double, 4> box{};  // xywh
  double area = 0;              // of the object's mask, not of its box
  bool crowd = false;
  bool unmatchable = false;  // id 0: pycocotools reads a match with it as none
};

struct FoundBox {
  std::array<double, 4> box{};  // xywh
  double score = 0;
};

// What became of one detection. Bit t of a mask stands for iou_thresholds[t].
struct MatchedDetection {
  double score = 0;
  std::uint32_t rank_in_image = 0;  // 0: the image's best of this class
  std::array<std::uint16_t, kAreaRangeCount> hit{};
  std::array<std::uint16_t, kAreaRangeCount> ignored{};  // neither right nor wrong
};

// Intersection over union of two xywh boxes, in f64 in pycocotools' order of operations. With
// `crowd` over the area of `found` alone: lying inside a crowd region is a full match.
double box_iou(const std::array<double, 4>& found, const std::array<double, 4>& truth, bool crowd);

// Reusable: keeps its buffers between images.
class ImageMatcher {
 public:
  explicit ImageMatcher(MatchingOptions options = {}) : options_(std::move(options)) {}

  // `found` best first. Appends one entry each to `matched` and adds the objects that count in each
  // area range to `object_counts`.
  //
  // Per threshold and area range, detections choose in order of score: each takes the free object
  // of the highest IoU (on ties the later one), objects that count before those that do not
  // (crowds, outside the area range); crowds are never used up. A detection on an object that does
  // not count, or unmatched and itself outside the area range, is ignored.
  void match(std::span<const TruthBox> truths, std::span<const FoundBox> found,
             std::vector<MatchedDetection>& matched,
             std::array<std::int64_t, kAreaRangeCount>& object_counts);

 private:
  // An object that a detection may choose.
  struct Near {
    std::uint32_t truth = 0;
    double iou = 0;
  };

  // Fills near_: whose IoU reaches the lowest threshold. Whether there are any.
  bool find_near(std::span<const TruthBox> truths, std::span<const FoundBox> found);
  void match_area(std::span<const TruthBox> truths, std::size_t found_count, std::size_t area,
                  MatchedDetection* matched);

  MatchingOptions options_;
  std::vector<Near> near_;               // of all detections, each's in file order
  std::vector<std::size_t> near_begin_;  // [found + 1]
  std::vector<std::uint8_t> ignored_;    // [truths]
  std::vector<std::uint16_t> taken_;     // [truths] bits as in MatchedDetection
};

}  // namespace retina
