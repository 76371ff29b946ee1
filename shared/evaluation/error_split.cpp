#include "shared/evaluation/error_split.h"

#include <algorithm>

#include "shared/base/error.h"

namespace retina {

namespace {

constexpr int kTideRecallSteps = 100;

// The order of tidecv's lists, best first.
struct TidePoint {
  double score;
  bool was_hit;
  std::uint32_t slot;
  bool right;

  bool operator<(const TidePoint& other) const {
    if (score != other.score) return score > other.score;
    if (was_hit != other.was_hit) return other.was_hit;
    return slot < other.slot;
  }
};

// Precision at each hit, then its mean over recalls 0, .01, ..., 1. Reused between curves.
class TideCurve {
 public:
  void clear() {
    precisions_.clear();
    point_count_ = 0;
  }
  void add(bool right) {
    ++point_count_;
    if (!right) return;
    const auto hits = static_cast<double>(precisions_.size() + 1);
    precisions_.push_back(hits / static_cast<double>(point_count_));
  }
  // The best precision at a recall or a higher one: hits alone decide, between them it only falls.
  ClassSplit::Ap ap(std::int64_t object_count) {
    ClassSplit::Ap result{.present = point_count_ > 0 || object_count > 0};
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
  std::int64_t point_count_ = 0;
};

// In tidecv's order once something is corrected. Ignored detections are left out unless they
// correct something.
std::vector<TideDetection> false_before_hits(std::span<const TideDetection> detections) {
  std::vector<TideDetection> ordered;
  ordered.reserve(detections.size());
  for (std::size_t begin = 0, end = 0; begin < detections.size(); begin = end) {
    bool any_hit = false, any_false = false;
    for (; end < detections.size() && detections[end].score == detections[begin].score; ++end) {
      (detections[end].outcome.hit ? any_hit : any_false) = true;
    }
    if (any_false) {
      for (std::size_t i = begin; i < end; ++i) {
        if (!detections[i].outcome.hit) ordered.push_back(detections[i]);
      }
    }
    if (any_hit) {
      for (std::size_t i = begin; i < end; ++i) {
        if (detections[i].outcome.hit) ordered.push_back(detections[i]);
      }
    }
  }
  return ordered;
}

bool is_fault(const TideDetection& detection, FaultKind kind) {
  return !detection.outcome.hit && detection.outcome.fault == kind;
}

// Corrected localisation faults become hits where they are; those of other kinds go.
void add_corrected(TideCurve& curve, std::span<const TideDetection> ordered, FaultKind kind) {
  for (const TideDetection& detection : ordered) {
    if (detection.outcome.hit) {
      curve.add(true);
    } else if (is_fault(detection, kind)) {
      if (kind == FaultKind::kLocalisation && detection.outcome.corrects) curve.add(true);
    } else if (!detection.outcome.ignored) {
      curve.add(false);
    }
  }
}

// Classification faults leave their class; in comes what is corrected to be of this one.
void add_moved(TideCurve& curve, std::span<const TideDetection> ordered,
               std::span<const MovedHit> moved) {
  const auto point = [](const TideDetection& detection) {
    return TidePoint{detection.score, detection.outcome.hit, detection.slot, detection.outcome.hit};
  };
  const auto add_before = [&](std::size_t& next, const TidePoint* limit) {
    for (; next < moved.size(); ++next) {
      const TidePoint one{moved[next].score, false, moved[next].slot, true};
      if (limit != nullptr && !(one < *limit)) return;
      curve.add(true);
    }
  };
  std::size_t next = 0;
  for (const TideDetection& detection : ordered) {
    if (is_fault(detection, FaultKind::kClassification)) continue;
    if (detection.outcome.ignored) continue;
    const TidePoint here = point(detection);
    add_before(next, &here);
    curve.add(here.right);
  }
  add_before(next, nullptr);
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
  TideCurve curve;
  for (const TideDetection& detection : detections) {
    if (!detection.outcome.ignored) curve.add(detection.outcome.hit);
  }
  split.now = curve.ap(counts.objects);

  const std::vector<TideDetection> ordered = false_before_hits(detections);
  for (std::size_t i = 0; i < kFaultKindCount; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    curve.clear();
    if (kind == FaultKind::kClassification) {
      add_moved(curve, ordered, moved);
    } else {
      add_corrected(curve, ordered, kind);
    }
    // No detection is of kind kMissed: this curve is the present one, over fewer objects.
    split.corrected[i] =
        curve.ap(counts.objects - (kind == FaultKind::kMissed ? counts.missed : 0));
  }
  curve.clear();
  add_corrected(curve, ordered, FaultKind::kMissed);
  split.no_false_negatives = curve.ap(counts.found);

  curve.clear();
  for (const bool right : {true, false}) {
    for (const TideDetection& detection : detections) {
      if (!detection.outcome.ignored && detection.outcome.hit == right) curve.add(right);
    }
  }
  split.no_false_positives = curve.ap(counts.objects);
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
