// Pairs detections with objects: COCO's greedy matching, for all IoU thresholds and area ranges at
// once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/evaluation/score/box_groups.h"

namespace retina {

inline constexpr std::size_t kAreaRangeCount = 4;
inline constexpr std::size_t kRecallThresholdCount = 101;
inline constexpr std::size_t kIouThresholdCount = 10;                          // COCO's
inline constexpr unsigned kAllIouThresholds = (1U << kIouThresholdCount) - 1;  // as a mask

// A range of areas in square pixels, both ends inclusive: an object of exactly 32^2 is small and
// medium.
struct AreaRange {
  double low = 0, high = 0;
  bool has(double area) const { return !(area < low) && !(area > high); }
};

// Returns COCO's .50:.05:.95, the f64 values of numpy.linspace(.5, .95, 10); an IoU equal to a
// threshold is a hit.
std::array<double, kIouThresholdCount> coco_iou_thresholds();
// Returns COCO's 0, .01, ..., 1: numpy.linspace(0, 1, 101).
inline double recall_threshold(std::size_t place) {
  return place + 1 == kRecallThresholdCount ? 1.0 : static_cast<double>(place) * 0.01;
}
// COCO's ranges: all, small, medium, large.
inline constexpr std::array<AreaRange, kAreaRangeCount> kCocoAreaRanges{
    {{0, 1e10}, {0, 32.0 * 32.0}, {32.0 * 32.0, 96.0 * 96.0}, {96.0 * 96.0, 1e10}}};

// Outcome of one detection. Bit t of a mask stands for threshold t.
struct Match {
  std::array<std::uint16_t, kAreaRangeCount> hit{};
  std::array<std::uint16_t, kAreaRangeCount> ignored{};  // neither right nor wrong
  std::uint32_t rank = 0;  // 0: the best of its image and class; from the limit on the masks are 0
};

// Matches the detections; returns the outcomes by slot. Per threshold and area range, the
// detections of an image choose in order of score: each takes the free object of its class with the
// highest IoU (on ties the later one), objects that count before those that do not (crowds, outside
// the area range); crowds are never used up. A detection on an object that does not count, or
// unmatched and itself outside the area range, is ignored. Only the best of an image and class take
// part, boxes.detection_limit() of them. `found`, if given, becomes 1 by slot for the objects that
// count in the first area range and have a hit at the lowest threshold.
std::vector<Match> match_detections(const BoxGroups& boxes, int thread_count,
                                    std::vector<std::uint8_t>* found = nullptr);

// A box in the form that overlaps are computed from.
struct BoxEdges {
  double left = 0, top = 0, right = 0, bottom = 0, area = 0;
  explicit BoxEdges(const std::array<double, 4>& xywh)
      : left(xywh[0]),
        top(xywh[1]),
        right(xywh[2] + xywh[0]),
        bottom(xywh[3] + xywh[1]),
        area(xywh[2] * xywh[3]) {}
};

// Returns the intersection over union of two boxes, in f64 in pycocotools' order of operations.
// With `crowd` over the area of `found` alone: lying inside a crowd region is a full match.
inline double box_iou(const BoxEdges& found, const BoxEdges& truth, bool crowd) {
  const double width = std::min(found.right, truth.right) - std::max(found.left, truth.left);
  const double height = std::min(found.bottom, truth.bottom) - std::max(found.top, truth.top);
  const double intersection = width * height;
  const double whole = crowd ? found.area : found.area + truth.area - intersection;
  // Branch-free, since a branch would often be mispredicted.
  return (width > 0) & (height > 0) ? intersection / whole : 0;
}

}  // namespace retina
