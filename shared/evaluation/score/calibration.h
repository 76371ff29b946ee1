// Calibration: how often detections of a score are right, the best score threshold of a class, and
// the cost of each false detection in AP. Right and wrong as COCO matches at IoU .5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace retina {

inline constexpr std::size_t kCalibrationBinCount = 10;

// Counts of detections, or images, with scores in a range, and of the right ones among them; here
// [low, high), of the last bin up to 1.
struct CalibrationBin {
  std::int64_t count = 0, right = 0;
  double score_sum = 0;

  void add(double score, bool is_right) {
    ++count;
    right += is_right ? 1 : 0;
    score_sum += score;
  }
  double mean_score() const { return count == 0 ? 0 : score_sum / static_cast<double>(count); }
  double precision() const {
    return count == 0 ? 0 : static_cast<double>(right) / static_cast<double>(count);
  }
};
using CalibrationBins = std::array<CalibrationBin, kCalibrationBinCount>;

struct Calibration {
  CalibrationBins bins{};
  double error = 0;  // calibration_error() of the bins
};

// Returns the mean distance of precision and mean score, bins weighted by their counts (Naeini et
// al. 2015, "Obtaining well calibrated probabilities using Bayesian binning", ECE). 0 without
// counts.
double calibration_error(std::span<const CalibrationBin> bins);

// Returns the bin of a value among `count` of equal width over [0, 1]: [low, high), or, `closed`
// above, (low, high]; values below belong to the first bin, above to the last.
std::size_t equal_width_bin(double value, std::size_t count, bool closed);

// The score of the class's detection that gives the best F1 = 2 PR / (P + R) if all below it are
// dropped; the highest of equals.
struct BestThreshold {
  double score = 0, f1 = 0, precision = 0, recall = 0;
};

// A detection that counts, that is, not an ignored one.
struct ScoredDetection {
  double score = 0;
  bool right = false;
};

// Returns the best threshold; nothing without a hit or an object. `detections` best first.
std::optional<BestThreshold> best_threshold(std::span<const ScoredDetection> detections,
                                            std::int64_t object_count);

// Returns the AP that each false detection costs, to first order: AP is about the mean over objects
// of the precision t / (t + f) at their hits (t hits and f false detections so far), and one false
// detection less changes that by t / (t + f)^2 at each hit of a lower score. For hits 0.
// `detections` best first.
std::vector<float> false_detection_costs(std::span<const ScoredDetection> detections,
                                         std::int64_t object_count);

}  // namespace retina
