// Compares two lists of detections of one image. Beyond rounding, two right answers can differ only
// where a number lies on a threshold; those cases are told apart from real differences.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace retina {

struct ScoredBox {
  std::array<float, 4> box{};  // xyxy px of the input image
  float score = 0;
  std::int64_t label = 0;
};

// The settings that made the lists, which show where rounding may explain a difference.
struct MatchContext {
  double score_threshold = 0.05;
  double nms_threshold = 0.5;
  int max_detections = 300;
};

// Two detections of one class count as the same when both are within these. A box whose longer side
// is above 100 px may be off by this much for each 100 px of it.
inline constexpr double kBoxTolerancePx = 1e-2;
inline constexpr double kScoreTolerance = 1e-4;

// Detections farther apart than this in any side or in score are never a pair.
inline constexpr double kPairedBoxPx = 1;
inline constexpr double kPairedScore = 0.01;

struct MatchResult {
  std::int64_t paired_count = 0;      // detections with a partner in the other list
  double largest_box_px = 0;          // over the pairs and the four sides; per 100 px of long boxes
  double largest_score = 0;           // over the pairs
  std::int64_t borderline_count = 0;  // detections without a partner, but on a threshold
  std::int64_t unexplained_count = 0;
  std::string first_unexplained{};  // description

  void add(const MatchResult& other);
};

// Pairs detections of equal class within kPairedBoxPx and kPairedScore, each with the nearest in
// box and score, both in units of their tolerances: several may have the same box. One without a
// partner is borderline when its score is within kScoreTolerance of the threshold, when the other
// list is full and ends above it, or when a box of its class in the other list overlaps it by the
// NMS threshold +- 1e-3, or by more and is itself without a partner.
MatchResult match_detections(const std::vector<ScoredBox>& want, const std::vector<ScoredBox>& got,
                             const MatchContext& context);

}  // namespace retina
