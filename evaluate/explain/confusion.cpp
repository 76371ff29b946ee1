#include "evaluate/explain/confusion.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace retina {

namespace {

constexpr double kUntaken = -std::numeric_limits<double>::infinity();

// Returns the highest threshold that `score` reaches; it must reach the lowest.
std::size_t reached_threshold(double score) {
  auto place = static_cast<std::size_t>(
      std::clamp(score * 20 - 1, 0.0, static_cast<double>(kConfusionScoreCount - 1)));
  while (place + 1 < kConfusionScoreCount && score >= confusion_score(place + 1)) ++place;
  while (place > 0 && score < confusion_score(place)) --place;
  return place;
}

}  // namespace

ConfusionCounter::Cell& ConfusionCounter::cell(std::int32_t truth, std::int32_t found) {
  const std::uint64_t stride = std::uint64_t{class_count_} + 1;
  return cells_[static_cast<std::uint64_t>(truth + 1) * stride +
                static_cast<std::uint64_t>(found + 1)];
}

// Keeps at most one example an image, its best.
void ConfusionCounter::note(Cell& cell, const Example& example) {
  const auto better = [](const Example& a, const Example& b) {
    if (a.value != b.value) return a.value > b.value;
    if (a.area != b.area) return a.area > b.area;
    return a.image < b.image;
  };
  auto& examples = cell.examples;
  std::uint32_t place = cell.example_count;
  for (std::uint32_t i = 0; i < cell.example_count; ++i) {
    if (examples[i].image == example.image) place = i;
  }
  if (place == examples.size()) --place;
  if (place < cell.example_count && !better(example, examples[place])) return;
  if (place == cell.example_count) ++cell.example_count;
  examples[place] = example;
  for (; place > 0 && better(examples[place], examples[place - 1]); --place) {
    std::swap(examples[place], examples[place - 1]);
  }
}

void ConfusionCounter::add(const MatchedImage& image, const MatchOutcomes& outcomes) {
  const BoxGroups& boxes = outcomes.boxes;
  taken_.assign(image.truth_count, kUntaken);
  for (std::uint32_t rank = 0; rank < image.count; ++rank) {
    const std::uint32_t slot = image.first + rank;
    const double score = boxes.score[slot];
    if (!(score >= confusion_score(0))) break;
    if (outcomes.detection[slot].coco == CocoOutcome::kUncounted) continue;
    const std::uint32_t label = boxes.label[slot];
    const Overlap* best = nullptr;
    bool best_same = false, in_crowd = false;
    // The best free object: its own class first, then the IoU.
    for (const Overlap& overlap : image.of(rank)) {
      if (overlap.iou < kExplainedIou) continue;
      const std::uint32_t g = image.first_truth + overlap.truth;
      const bool same = boxes.truth_label[g] == label;
      if (outcomes.truth[g].crowd) {
        in_crowd |= same;
        continue;
      }
      if (taken_[overlap.truth] != kUntaken) continue;
      if (best == nullptr || (same != best_same ? same : overlap.iou > best->iou)) {
        best = &overlap;
        best_same = same;
      }
    }
    std::int32_t truth_label = kBackground;
    if (best != nullptr) {
      taken_[best->truth] = score;
      truth_label = static_cast<std::int32_t>(boxes.truth_label[image.first_truth + best->truth]);
    } else if (in_crowd) {
      continue;
    }
    Cell& pair = cell(truth_label, static_cast<std::int32_t>(label));
    ++pair.pairs[reached_threshold(score)];
    note(pair, {.value = score, .image = image.image});
  }
  // Examples of missed objects: all but those that a detection takes at every threshold.
  for (std::uint32_t i = 0; i < image.truth_count; ++i) {
    const std::uint32_t g = image.first_truth + i;
    if (outcomes.truth[g].crowd || taken_[i] >= confusion_score(kConfusionScoreCount - 1)) continue;
    note(cell(static_cast<std::int32_t>(boxes.truth_label[g]), kBackground),
         {.value = -taken_[i], .area = boxes.object(g).area, .image = image.image});
  }
}

void ConfusionCounter::merge(const ConfusionCounter& other) {
  for (const auto& [key, from] : other.cells_) {
    Cell& into = cells_[key];
    for (std::size_t i = 0; i < from.pairs.size(); ++i) into.pairs[i] += from.pairs[i];
    for (std::uint32_t i = 0; i < from.example_count; ++i) note(into, from.examples[i]);
  }
}

Confusion ConfusionCounter::result(const BoxGroups& boxes) const {
  Confusion confusion;
  confusion.truth_counts.assign(class_count_, 0);
  for (std::size_t g = 0; g < boxes.annotation.size(); ++g) {
    if (!boxes.object(g).iscrowd) ++confusion.truth_counts[boxes.truth_label[g]];
  }

  // A fixed order: that of the hash table depends on the threads.
  const std::map<std::uint64_t, Cell> sorted(cells_.begin(), cells_.end());
  const std::uint64_t stride = std::uint64_t{class_count_} + 1;
  std::array<std::int64_t, kConfusionScoreCount> right{}, found{};
  std::vector<std::array<std::int64_t, kConfusionScoreCount>> taken(class_count_);
  for (const auto& [key, one] : sorted) {
    ConfusionCell cell{.truth = static_cast<std::int32_t>(key / stride) - 1,
                       .found = static_cast<std::int32_t>(key % stride) - 1};
    for (std::uint32_t i = 0; i < one.example_count; ++i) {
      cell.image_ids.push_back(boxes.image(one.examples[i].image).id);
    }
    if (cell.found != kBackground) {
      std::int64_t count = 0;
      for (std::size_t i = kConfusionScoreCount; i-- > 0;) {
        count += one.pairs[i];
        cell.counts[i] = count;
        found[i] += count;
        if (cell.truth == cell.found) right[i] += count;
        if (cell.truth != kBackground) taken[static_cast<std::size_t>(cell.truth)][i] += count;
      }
    }
    confusion.cells.push_back(std::move(cell));
  }
  // Missed objects at a threshold are those that no detection of at least that score took.
  for (ConfusionCell& cell : confusion.cells) {
    if (cell.found != kBackground) continue;
    const auto label = static_cast<std::size_t>(cell.truth);
    for (std::size_t i = 0; i < kConfusionScoreCount; ++i) {
      cell.counts[i] = confusion.truth_counts[label] - taken[label][i];
    }
  }
  std::erase_if(confusion.cells, [](const ConfusionCell& cell) {
    return std::all_of(cell.counts.begin(), cell.counts.end(),
                       [](std::int64_t count) { return count == 0; });
  });

  // The threshold of the best F1 over all classes.
  const std::int64_t objects = std::accumulate(confusion.truth_counts.begin(),
                                               confusion.truth_counts.end(), std::int64_t{0});
  double best = -1;
  for (std::size_t i = 0; i < kConfusionScoreCount; ++i) {
    const std::int64_t all = found[i] + objects;
    const double f1 = all == 0 ? 0 : 2 * static_cast<double>(right[i]) / static_cast<double>(all);
    if (f1 > best) {
      best = f1;
      confusion.chosen = i;
    }
  }
  return confusion;
}

}  // namespace retina
