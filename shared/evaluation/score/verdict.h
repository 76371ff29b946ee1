// What a detector's AP means, and what to do next: a sentence or two for people, by rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/resampling.h"

namespace retina {

// The course of a training, as its validations saw it.
struct TrainingCourse {
  std::vector<double> steps{}, aps{};  // of the validations, in their order
  std::vector<double> losses{};        // the validations'
  std::int64_t total_steps = 0;
  double first_loss = 0, last_loss = 0;  // the training's, smoothed
};

struct VerdictInput {
  double ap = -1;                      // COCO's AP@[.50:.95]; below 0: there is nothing to find
  std::optional<Interval> interval{};  // ap_interval()
  std::int64_t object_count = 0, image_count = 0;
  std::vector<std::string> lost_classes{};  // with objects, of which none is found
  std::optional<TrainingCourse> course{};   // unset: an evaluation
};

// Returns an evaluation's facts, with an interval of kMostResampledImages at most.
VerdictInput verdict_facts(const CocoMetrics& metrics, const BoxGroups& boxes);

// Returns "AP 0.416 (95 % of such image sets: 0.382 to 0.449): ..." and a next step; "" where there
// is nothing to find.
std::string verdict(const VerdictInput& input);

}  // namespace retina
