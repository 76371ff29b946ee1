#include "evaluate/explain/error_split.h"

#include <algorithm>

#include "shared/base/error.h"

namespace retina {

namespace {

constexpr int kTideRecallSteps = 100;

// Returns true if tidecv, once it corrects anything, has `a` before `b`: best first, among equal
// scores false detections before hits.
bool comes_before(const TideDetection& a, const TideDetection& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.outcome.hit != b.outcome.hit) return b.outcome.hit;
  return a.order < b.order;
}

// Collects precision at each hit, then takes its mean over recalls 0, .01, ..., 1.
class TideCurve {
 public:
  void hit_after(std::int64_t false_count) {
    const auto hits = static_cast<std::int64_t>(precisions_.size() + 1);
    precisions_.push_back(static_cast<double>(hits) / static_cast<double>(hits + false_count));
  }
  // Returns AP from the best precision at a recall or a higher one: hits alone decide, since
  // precision only falls between them.
  ClassSplit::Ap ap(std::int64_t false_count, std::int64_t object_count) {
    ClassSplit::Ap result{.present = !precisions_.empty() || false_count > 0 || object_count > 0};
    if (object_count <= 0) return result;
    for (std::size_t i = precisions_.size(); i-- > 1;) {
      precisions_[i - 1] = std::max(precisions_[i - 1], precisions_[i]);
    }
    double sum = 0;
    std::size_t hit = 0;
    for (int step = 0; step <= kTideRecallSteps; ++step) {
      const double wanted = static_cast<double>(step) / kTideRecallSteps;
      while (hit < precisions_.size() &&
             static_cast<double>(hit + 1) / static_cast<double>(object_count) < wanted) {
        ++hit;
      }
      if (hit == precisions_.size()) break;
      sum += precisions_[hit];
    }
    result.value = sum / (kTideRecallSteps + 1);
    return result;
  }

 private:
  std::vector<double> precisions_;
};

constexpr auto place_of(FaultKind kind) {
  return static_cast<std::size_t>(kind);
}

// False detections so far, all and by kind. Those on crowd regions do not count for AP.
struct FalseCounts {
  std::int64_t all = 0;
  std::array<std::int64_t, kFaultKindCount> of_kind{};

  void add(const TideOutcome& outcome) {
    const std::int64_t one = outcome.ignored ? 0 : 1;
    all += one;
    of_kind[place_of(outcome.fault)] += one;
  }
  std::int64_t without(FaultKind kind) const { return all - of_kind[place_of(kind)]; }
};

// Returns AP with classification faults corrected: the class loses its own, and gains those of
// other classes that belong to it.
ClassSplit::Ap reclassified_ap(std::vector<TideDetection> detections,
                               std::span<const MovedHit> moved, std::int64_t object_count) {
  // A kind that no detection has marks those that were moved.
  TideOutcome moved_outcome;
  moved_outcome.fault = FaultKind::kMissed;
  for (const MovedHit& one : moved) detections.push_back({one.score, one.order, moved_outcome});
  std::sort(detections.begin(), detections.end(), comes_before);
  TideCurve curve;
  FalseCounts counts;
  for (const auto& [score, order, outcome] : detections) {
    if (outcome.hit || outcome.fault == FaultKind::kMissed) {
      curve.hit_after(counts.without(FaultKind::kClassification));
    } else {
      counts.add(outcome);
    }
  }
  return curve.ap(counts.without(FaultKind::kClassification), object_count);
}

}  // namespace

const char* fault_name(FaultKind kind) {
  constexpr std::array<const char*, kFaultKindCount> kNames{
      "classification", "localisation", "both", "duplicate", "background", "missed"};
  return kNames.at(static_cast<std::size_t>(kind));
}

ClassSplit split_class(std::span<const TideDetection> detections, std::span<const MovedHit> moved,
                       const ClassCounts& counts) {
  ClassSplit split;
  TideCurve now, all_hits;
  FalseCounts present;
  for (const TideDetection& detection : detections) {
    if (detection.outcome.hit) {
      now.hit_after(present.all);
      all_hits.hit_after(0);
    } else {
      present.add(detection.outcome);
    }
  }
  split.now = now.ap(present.all, counts.objects);
  split.no_false_positives = all_hits.ap(present.all, counts.objects);

  std::vector<TideDetection> ordered(detections.begin(), detections.end());
  std::sort(ordered.begin(), ordered.end(), comes_before);
  std::array<TideCurve, kFaultKindCount> curves;
  FalseCounts so_far;
  for (const TideDetection& detection : ordered) {
    const TideOutcome& outcome = detection.outcome;
    if (outcome.hit) {
      for (std::size_t kind = 0; kind < kFaultKindCount; ++kind) {
        curves[kind].hit_after(so_far.without(static_cast<FaultKind>(kind)));
      }
    } else {
      so_far.add(outcome);
      if (outcome.fault == FaultKind::kLocalisation && outcome.corrects) {
        curves[place_of(FaultKind::kLocalisation)].hit_after(
            so_far.without(FaultKind::kLocalisation));
      }
    }
  }
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    split.corrected[i] =
        kind == FaultKind::kClassification
            ? reclassified_ap(ordered, moved, counts.objects)
            : curves[i].ap(so_far.without(kind),
                           counts.objects - (kind == FaultKind::kMissed ? counts.missed : 0));
  }
  // No detection is of kind kMissed: its curve is the present one in tidecv's other order.
  split.no_false_negatives = curves[place_of(FaultKind::kMissed)].ap(so_far.all, counts.found);
  return split;
}

ErrorSplit combine_classes(std::span<const ClassSplit> classes) {
  const auto mean = [&](const auto& ap_of) {
    double sum = 0;
    int count = 0;
    for (const ClassSplit& one : classes) {
      const ClassSplit::Ap& ap = ap_of(one);
      if (!ap.present) continue;
      sum += ap.value;
      ++count;
    }
    return count == 0 ? 1.0 : sum / count;
  };
  ErrorSplit split;
  // Without anything to find or found, all is 0, not the 1 of mean().
  if (std::none_of(classes.begin(), classes.end(),
                   [](const ClassSplit& one) { return one.now.present; })) {
    return split;
  }
  using Ap = const ClassSplit::Ap&;
  split.ap = mean([](const ClassSplit& one) -> Ap { return one.now; });
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    const double ap = mean([&](const ClassSplit& one) -> Ap { return one.corrected[i]; });
    split.kinds[i].ap_cost = std::max(ap - split.ap, 0.0);
  }
  split.false_positive_cost =
      mean([](const ClassSplit& one) -> Ap { return one.no_false_positives; }) - split.ap;
  split.false_negative_cost =
      mean([](const ClassSplit& one) -> Ap { return one.no_false_negatives; }) - split.ap;
  return split;
}

}  // namespace retina
