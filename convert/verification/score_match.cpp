#include "convert/verification/score_match.h"

#include <algorithm>
#include <cmath>

#include "shared/base/error.h"

namespace retina {
namespace {

// Returns the largest difference, infinite where a number is not finite.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  RETINA_CHECK(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!std::isfinite(difference)) return HUGE_VAL;
    largest = std::max(largest, difference);
  }
  return largest;
}

std::size_t best_of(const std::vector<float>& scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace

void ScoreMatch::add(const ScoreMatch& other) {
  image_count += other.image_count;
  same_best_count += other.same_best_count;
  largest_probability = std::max(largest_probability, other.largest_probability);
  largest_logit = std::max(largest_logit, other.largest_logit);
  unequal_count += other.unequal_count;
  if (first_unequal.empty()) first_unequal = other.first_unequal;
}

ScoreMatch match_scores(const ClassScoreRow& want, const ClassScoreRow& got) {
  double scale = 1;
  for (const float logit : want.logits) scale = std::max(scale, std::abs(double{logit}));
  ScoreMatch result{
      .image_count = 1,
      .largest_probability = largest_difference(want.probabilities, got.probabilities),
      .largest_logit = largest_difference(want.logits, got.logits) / scale};
  const std::size_t best = best_of(want.probabilities), other = best_of(got.probabilities);
  result.same_best_count = best == other ? 1 : 0;
  const double lead = double{want.probabilities[best]} - double{want.probabilities[other]};
  if (!(result.largest_probability <= kProbabilityTolerance)) {
    result.first_unequal = cat("probabilities differ by ", result.largest_probability,
                               " (want at most ", kProbabilityTolerance, ")");
  } else if (!(result.largest_logit <= kLogitTolerance)) {
    result.first_unequal = cat("logits differ by ", result.largest_logit,
                               " of the largest one (want at most ", kLogitTolerance, ")");
  } else if (!(lead <= kProbabilityTolerance)) {
    result.first_unequal = cat("its best class is ", other, " (want ", best, ")");
  }
  result.unequal_count = result.first_unequal.empty() ? 0 : 1;
  return result;
}

}  // namespace retina
