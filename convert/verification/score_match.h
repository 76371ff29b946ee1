// Compares two classifiers' scores of one image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retina {

struct ClassScoreRow {
  std::vector<float> logits{}, probabilities{};  // [K] each
};

// Largest difference of probabilities, and of logits as a share of max(1, largest |logit| of
// `want`). Logits are checked, too, because saturated probabilities hide differences.
inline constexpr double kProbabilityTolerance = 1e-5;
inline constexpr double kLogitTolerance = 1e-4;

struct ScoreMatch {
  std::int64_t image_count = 0;
  std::int64_t same_best_count = 0;  // images whose best class is the same
  double largest_probability = 0;    // difference, over all images and classes
  double largest_logit = 0;          // the same for logits, on that scale
  std::int64_t unequal_count = 0;    // images with a difference beyond a tolerance
  std::string first_unequal{};       // description

  void add(const ScoreMatch& other);
};

// Compares `got` with `want`, the scores of one image; all four vectors have the same K >= 1
// classes. The best classes may differ where `want` gives both the same probability within the
// tolerance. A number that is not finite equals nothing.
ScoreMatch match_scores(const ClassScoreRow& want, const ClassScoreRow& got);

}  // namespace retina
