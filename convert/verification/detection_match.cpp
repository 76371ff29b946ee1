#include "convert/verification/detection_match.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shared/base/cat.h"

namespace retina {
namespace {

constexpr double kIouMargin = 1e-3;

// Returns the largest distance of two sides in pixels, or in hundredths of `a`'s longer side where
// that is more: an offset's rounding error is multiplied by the size of the anchor.
double box_distance_px(const ScoredBox& a, const ScoredBox& b) {
  double largest = 0;
  for (std::size_t side = 0; side < 4; ++side) {
    const double distance = std::abs(double{a.box[side]} - double{b.box[side]});
    if (std::isnan(distance)) return distance;
    largest = std::max(largest, distance);
  }
  const double side_px = std::max(a.box[2] - a.box[0], a.box[3] - a.box[1]);
  return largest / std::max(1.0, side_px / 100);
}

double score_distance(const ScoredBox& a, const ScoredBox& b) {
  return std::abs(double{a.score} - double{b.score});
}

double iou(const ScoredBox& a, const ScoredBox& b) {
  const auto area = [](const ScoredBox& s) {
    return (double{s.box[2]} - s.box[0]) * (double{s.box[3]} - s.box[1]);
  };
  const double width =
      std::max(0.0, double{std::min(a.box[2], b.box[2])} - std::max(a.box[0], b.box[0]));
  const double height =
      std::max(0.0, double{std::min(a.box[3], b.box[3])} - std::max(a.box[1], b.box[1]));
  const double both = width * height;
  return both > 0 ? both / (area(a) + area(b) - both) : 0;
}

// One of the two lists, with the index of each detection's partner in the other list.
struct Side {
  const std::vector<ScoredBox>& boxes;
  std::vector<bool> paired;
};

bool is_borderline(const ScoredBox& lone, const Side& other, const MatchContext& context) {
  if (std::abs(lone.score - context.score_threshold) <= kScoreTolerance) return true;
  const auto& boxes = other.boxes;
  const bool full = boxes.size() >= static_cast<std::size_t>(context.max_detections);
  if (full && lone.score <= boxes.back().score + kScoreTolerance) return true;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].label != lone.label) continue;
    const double overlap = iou(lone, boxes[i]);
    if (std::abs(overlap - context.nms_threshold) <= kIouMargin) return true;
    if (overlap > context.nms_threshold && !other.paired[i]) return true;
  }
  return false;
}

std::string describe(const ScoredBox& s) {
  return cat("class ", s.label, ", score ", s.score, ", box ", s.box[0], " ", s.box[1], " ",
             s.box[2], " ", s.box[3]);
}

void count_lone(const Side& side, const Side& other, const MatchContext& context,
                const std::string& who, MatchResult& result) {
  for (std::size_t i = 0; i < side.boxes.size(); ++i) {
    if (side.paired[i]) continue;
    if (is_borderline(side.boxes[i], other, context)) {
      ++result.borderline_count;
    } else if (result.unexplained_count++ == 0) {
      result.first_unexplained = cat("only ", who, " finds ", describe(side.boxes[i]));
    }
  }
}

}  // namespace

void MatchResult::add(const MatchResult& other) {
  paired_count += other.paired_count;
  largest_box_px = std::max(largest_box_px, other.largest_box_px);
  largest_score = std::max(largest_score, other.largest_score);
  borderline_count += other.borderline_count;
  unexplained_count += other.unexplained_count;
  if (first_unexplained.empty()) first_unexplained = other.first_unexplained;
}

MatchResult match_detections(const std::vector<ScoredBox>& want, const std::vector<ScoredBox>& got,
                             const MatchContext& context) {
  MatchResult result;
  Side reference{want, std::vector<bool>(want.size())};
  Side converted{got, std::vector<bool>(got.size())};
  for (std::size_t i = 0; i < want.size(); ++i) {
    std::size_t partner = got.size();
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < got.size(); ++j) {
      if (converted.paired[j] || got[j].label != want[i].label) continue;
      const double box_px = box_distance_px(want[i], got[j]);
      const double score = score_distance(want[i], got[j]);
      // Not ">": a NaN coordinate pairs with nothing.
      if (!(box_px <= kPairedBoxPx && score <= kPairedScore)) continue;
      // NMS keeps many boxes without area in one place, clipped to an edge: there the score alone
      // tells them apart.
      const double distance = box_px / kBoxTolerancePx + score / kScoreTolerance;
      if (distance >= nearest) continue;
      partner = j;
      nearest = distance;
    }
    if (partner == got.size()) continue;
    reference.paired[i] = converted.paired[partner] = true;
    ++result.paired_count;
    result.largest_box_px = std::max(result.largest_box_px, box_distance_px(want[i], got[partner]));
    result.largest_score = std::max(result.largest_score, score_distance(want[i], got[partner]));
  }
  count_lone(reference, converted, context, "the checkpoint", result);
  count_lone(converted, reference, context, "the inference model", result);
  return result;
}

}  // namespace retina
