// Are two classifiers' scores of one image the same?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retina {

struct ClassScoreRow {
  std::vector<float> logits{}, probabilities{};  // [K] each
};

// Probabilities are the same within this; logits within this times the image's largest one, at
// least 1: where a class is as good as certain, its probability would show no difference.
inline constexpr double kProbabilityTolerance = 1e-5;
inline constexpr double kLogitTolerance = 1e-4;

struct ScoreMatch {
  std::int64_t image_count = 0;
  std::int64_t same_best_count = 0;  // images whose best class is the same
  double largest_probability = 0;    // difference, over all images and classes
  double largest_logit = 0;          // the same of logits, as shares of each image's largest one
  std::int64_t unequal_count = 0;    // images beyond a tolerance
  std::string first_unequal{};       // in words

  void add(const ScoreMatch& other);
};

// Compares `got` with `want`, classes of one image. Their best classes may differ where the two
// have the same probability within the tolerance. Nothing equals a number that is not finite.
ScoreMatch match_scores(const ClassScoreRow& want, const ClassScoreRow& got);

}  // namespace retina
