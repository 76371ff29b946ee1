#include "shared/anchor/anchor_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "shared/base/cat.h"
#include "shared/base/parallel.h"

namespace retina {
namespace {

constexpr std::array kFirstSizes = {16.0, 24.0, 32.0, 48.0, 64.0};
constexpr std::array kGrowths = {1.5, 2.0, 2.5};
constexpr double kNoDifference = 0.002;
constexpr std::size_t kEvaluatedBoxes = 100000;

// Returns all ladders, the nearest to the default first.
std::vector<std::vector<double>> ladders() {
  std::multimap<double, std::vector<double>> by_distance;  // in octaves; ties stay in order
  for (const double first : kFirstSizes) {
    for (const double growth : kGrowths) {
      const double distance = std::abs(std::log2(first / 32)) + std::abs(std::log2(growth / 2));
      std::vector<double>& sizes = by_distance.emplace(distance, std::vector<double>())->second;
      for (int level = 0; level < kLevelCount; ++level) {
        sizes.push_back(std::round(first * std::pow(growth, level)));
      }
    }
  }
  std::vector<std::vector<double>> all;
  for (const auto& [distance, sizes] : by_distance) all.push_back(sizes);
  return all;
}

// Returns the coverage of the default sizes; callers rescale a box to them, so that only its shape
// counts.
const AnchorCoverage& every_size() {
  static const AnchorCoverage coverage(default_anchor_sizes());
  return coverage;
}

}  // namespace

const std::vector<double>& default_anchor_sizes() {
  static const std::vector<double> sizes = {32, 64, 128, 256, 512};
  return sizes;
}

std::string anchor_sizes_text(const std::vector<double>& sizes) {
  std::string text;
  for (const double size : sizes) text += cat(text.empty() ? "" : ",", shortest(size));
  return text;
}

std::int64_t count_boxes(const std::vector<BoxSize>& boxes) {
  return std::accumulate(boxes.begin(), boxes.end(), std::int64_t{0},
                         [](std::int64_t count, const BoxSize& box) { return count + box.count; });
}

Fit fit_of(const BoxSize& box, const AnchorCoverage& coverage) {
  const double width = box.width_px, height = box.height_px;
  if (coverage.best_iou(width, height) >= kBackgroundIou) return Fit::kCovered;
  constexpr double kMiddlePx = 128;
  const double scale = kMiddlePx / std::sqrt(width * height);
  if (!(every_size().best_iou(width * scale, height * scale) >= kBackgroundIou)) return Fit::kThin;
  // Compares with a slightly larger box of the same shape: a box that is too small is covered
  // better so.
  constexpr double kLarger = 1.1;
  const bool is_small =
      coverage.best_iou(width * kLarger, height * kLarger) > coverage.best_iou(width, height);
  return is_small ? Fit::kSmall : Fit::kLarge;
}

Uncovered count_uncovered(const std::vector<BoxSize>& boxes,
                          const std::vector<double>& anchor_sizes) {
  const AnchorCoverage coverage(anchor_sizes);
  Uncovered uncovered;
  for (const BoxSize& box : boxes) {
    const Fit fit = fit_of(box, coverage);
    uncovered.small += fit == Fit::kSmall ? box.count : 0;
    uncovered.large += fit == Fit::kLarge ? box.count : 0;
    uncovered.thin += fit == Fit::kThin ? box.count : 0;
  }
  return uncovered;
}

AnchorProposal propose_anchors(const std::vector<BoxSize>& boxes, int thread_count) {
  const std::size_t stride = (boxes.size() + kEvaluatedBoxes - 1) / kEvaluatedBoxes;
  std::vector<BoxSize> judged;
  for (std::size_t i = 0; i < boxes.size(); i += stride) judged.push_back(boxes[i]);
  const auto all = ladders();
  std::vector<std::int64_t> uncovered(all.size());
  for_each_parallel(all.size(), thread_count,
                    [&](std::size_t i) { uncovered[i] = count_uncovered(judged, all[i]).all(); });
  const auto fewest = static_cast<double>(*std::min_element(uncovered.begin(), uncovered.end()));
  const double enough = fewest + kNoDifference * static_cast<double>(count_boxes(judged));
  std::size_t chosen = 0;
  while (static_cast<double>(uncovered[chosen]) > enough) ++chosen;
  return {.sizes = all[chosen], .uncovered = count_uncovered(boxes, all[chosen])};
}

}  // namespace retina
