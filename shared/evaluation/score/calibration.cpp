#include "shared/evaluation/score/calibration.h"

#include <algorithm>
#include <cmath>

namespace retina {

std::size_t equal_width_bin(double value, std::size_t count, bool closed) {
  std::size_t bin = count - 1;
  for (; bin > 0; --bin) {
    const double low = static_cast<double>(bin) / static_cast<double>(count);
    if (closed ? value > low : value >= low) break;
  }
  return bin;
}

double calibration_error(std::span<const CalibrationBin> bins) {
  double error = 0;
  std::int64_t count = 0;
  for (const CalibrationBin& bin : bins) {
    error += static_cast<double>(bin.count) * std::abs(bin.precision() - bin.mean_score());
    count += bin.count;
  }
  return count == 0 ? 0 : error / static_cast<double>(count);
}

std::optional<BestThreshold> best_threshold(std::span<const ScoredDetection> detections,
                                            std::int64_t object_count) {
  if (object_count <= 0) return std::nullopt;
  std::size_t hits = 0, best_hits = 0, best_count = 0;
  // F1 = 2 hits / (count + objects), compared without division.
  const auto objects = static_cast<std::size_t>(object_count);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    hits += detections[i].right ? 1 : 0;
    const std::size_t count = i + 1;
    if (count < detections.size() && detections[count].score == detections[i].score) continue;
    if (hits * (best_count + objects) > best_hits * (count + objects)) {
      best_hits = hits;
      best_count = count;
    }
  }
  if (best_hits == 0) return std::nullopt;
  const auto right = static_cast<double>(best_hits);
  return BestThreshold{.score = detections[best_count - 1].score,
                       .f1 = 2 * right / static_cast<double>(best_count + objects),
                       .precision = right / static_cast<double>(best_count),
                       .recall = right / static_cast<double>(objects)};
}

std::vector<float> false_detection_costs(std::span<const ScoredDetection> detections,
                                         std::int64_t object_count) {
  std::vector<float> costs(detections.size(), 0);
  if (object_count <= 0) return costs;
  auto hits = static_cast<std::size_t>(std::count_if(
      detections.begin(), detections.end(), [](const ScoredDetection& one) { return one.right; }));
  double below = 0;  // over the hits after this place
  for (std::size_t i = detections.size(); i-- > 0;) {
    if (!detections[i].right) {
      costs[i] = static_cast<float>(below / static_cast<double>(object_count));
      continue;
    }
    const auto so_far = static_cast<double>(i + 1);
    below += static_cast<double>(hits) / (so_far * so_far);
    --hits;
  }
  return costs;
}

}  // namespace retina
