// The confusion matrix of a detector, at many score thresholds at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "evaluate/explain/match_outcomes.h"

namespace retina {

inline constexpr std::size_t kConfusionScoreCount = 19;
// Returns .05, .1, ..., .95.
constexpr double confusion_score(std::size_t place) {
  return static_cast<double>(place + 1) / 20;
}

inline constexpr std::int32_t kBackground = -1;

struct ConfusionCell {
  std::int32_t truth = kBackground;  // label, or kBackground: a detection without an object
  std::int32_t found = kBackground;  // label, or kBackground: missed
  std::array<std::int64_t, kConfusionScoreCount> counts{};
  // Up to 3, the most confident detection first; for missed objects those that no detection takes
  // or the least confident one, the larger first.
  std::vector<std::int64_t> image_ids{};
};

struct Confusion {
  std::size_t chosen = 0;  // the threshold of the best F1 over all classes, the lowest of equals
  std::vector<std::int64_t> truth_counts{};  // [classes] without crowd regions
  std::vector<ConfusionCell> cells{};        // by truth, then found; only those with a count
};

// Counts pairs of images. Detections choose in order of score: the free object of IoU >= .5 and of
// their own class, else of any class, the highest IoU first (the first of equals). A detection
// without one on a crowd region of its class is left out.
class ConfusionCounter {
 public:
  explicit ConfusionCounter(std::uint32_t class_count) : class_count_(class_count) {}
  void add(const MatchedImage& image, const MatchOutcomes& outcomes);
  // Adds the counts of `other`; the order of merging changes nothing.
  void merge(const ConfusionCounter& other);
  Confusion result(const BoxGroups& boxes) const;

 private:
  struct Example {
    double value = 0, area = 0;
    std::uint32_t image = 0;
  };
  struct Cell {
    std::array<std::uint32_t, kConfusionScoreCount> pairs{};  // by the highest threshold reached
    std::array<Example, 3> examples{};
    std::uint32_t example_count = 0;
  };
  Cell& cell(std::int32_t truth, std::int32_t found);
  static void note(Cell& cell, const Example& example);

  std::uint32_t class_count_;
  std::unordered_map<std::uint64_t, Cell> cells_;  // by truth and found
  std::vector<double> taken_;                      // [objects of the image] the score that took it
};

}  // namespace retina
