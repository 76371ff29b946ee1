#include "shared/evaluation/matching.h"

#include <algorithm>
#include <limits>

#include "shared/base/error.h"

namespace retina {

std::vector<double> coco_iou_thresholds() {
  // numpy.linspace: start + i * step, the last value set to the end itself.
  std::vector<double> values(kIouThresholdCount);
  const double step = (.95 - .5) / 9.0;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) * step + .5;
  values.back() = .95;
  return values;
}

double box_iou(const std::array<double, 4>& found, const std::array<double, 4>& truth, bool crowd) {
  const double width =
      std::min(found[2] + found[0], truth[2] + truth[0]) - std::max(found[0], truth[0]);
  if (width <= 0) return 0;
  const double height =
      std::min(found[3] + found[1], truth[3] + truth[1]) - std::max(found[1], truth[1]);
  if (height <= 0) return 0;
  const double intersection = width * height;
  const double found_area = found[2] * found[3], truth_area = truth[2] * truth[3];
  return intersection / (crowd ? found_area : found_area + truth_area - intersection);
}

bool ImageMatcher::find_near(std::span<const TruthBox> truths, std::span<const FoundBox> found) {
  near_.clear();
  near_begin_.assign(1, 0);
  const double lowest = options_.iou_thresholds.front();
  for (const FoundBox& one : found) {
    for (std::size_t g = 0; g < truths.size(); ++g) {
      const double iou = box_iou(one.box, truths[g].box, truths[g].crowd);
      if (iou >= lowest) near_.push_back({.truth = static_cast<std::uint32_t>(g), .iou = iou});
    }
    near_begin_.push_back(near_.size());
  }
  return !near_.empty();
}

void ImageMatcher::match(std::span<const TruthBox> truths, std::span<const FoundBox> found,
                         std::vector<MatchedDetection>& matched,
                         std::array<std::int64_t, kAreaRangeCount>& object_counts) {
  const std::size_t first = matched.size();
  for (std::size_t d = 0; d < found.size(); ++d) {
    matched.push_back({.score = found[d].score, .rank_in_image = static_cast<std::uint32_t>(d)});
  }
  // Most detections have no object of their class near them: then there is nothing to choose.
  const bool any_near = !truths.empty() && !found.empty() && find_near(truths, found);
  for (std::size_t area = 0; area < kAreaRangeCount; ++area) {
    const AreaRange& range = options_.area_ranges[area];
    ignored_.clear();
    for (const TruthBox& truth : truths) {
      ignored_.push_back(truth.crowd || !range.has(truth.area) ? 1 : 0);
    }
    object_counts[area] += std::count(ignored_.begin(), ignored_.end(), std::uint8_t{0});
    if (any_near) match_area(truths, found.size(), area, matched.data() + first);

    for (std::size_t d = 0; d < found.size(); ++d) {
      MatchedDetection& detection = matched[first + d];
      if (range.has(found[d].box[2] * found[d].box[3])) continue;
      detection.ignored[area] |= static_cast<std::uint16_t>(~detection.hit[area]);
    }
  }
}

void ImageMatcher::match_area(std::span<const TruthBox> truths, std::size_t found_count,
                              std::size_t area, MatchedDetection* matched) {
  taken_.assign(truths.size(), 0);
  for (std::size_t d = 0; d < found_count; ++d) {
    const auto near = std::span(near_).subspan(near_begin_[d], near_begin_[d + 1] - near_begin_[d]);
    if (near.empty()) continue;
    for (std::size_t t = 0; t < options_.iou_thresholds.size(); ++t) {
      const auto bit = static_cast<std::uint16_t>(1U << t);
      double best = std::min(options_.iou_thresholds[t], 1 - 1e-10);  // as pycocotools
      constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
      std::uint32_t choice = kNone;
      for (const int pass : {0, 1}) {  // those that count first, each in file order
        for (const Near& one : near) {
          if (ignored_[one.truth] != pass || one.iou < best) continue;
          if ((taken_[one.truth] & bit) != 0 && !truths[one.truth].crowd) continue;
          best = one.iou;
          choice = one.truth;
        }
        if (choice != kNone) break;
      }
      if (choice == kNone) continue;
      taken_[choice] |= bit;
      if (ignored_[choice] != 0) matched[d].ignored[area] |= bit;
      if (!truths[choice].unmatchable) matched[d].hit[area] |= bit;
    }
  }
}

}  // namespace retina
