#include "shared/evaluation/score/class_outcome.h"

#include <algorithm>
#include <cmath>

#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {

namespace {

void check_finite(const ClassScores& image) {
  for (std::size_t label = 0; label < image.scores.size(); ++label) {
    if (std::isfinite(image.scores[label])) continue;
    throw Error(ErrorKind::kData,
                cat(image_name(image.image_id, image.file_name), ": score of class ", label,
                    " (got ", image.scores[label], ", want a finite number)"),
                "the model has diverged: evaluate an earlier checkpoint");
  }
}

}  // namespace

ClassOutcome class_outcome(const ClassScores& image) {
  const std::span<const float> scores = image.scores;
  RETINA_CHECK(image.label >= 0 && static_cast<std::size_t>(image.label) < scores.size(), "image ",
               image.image_id, ": label ", image.label, " of ", scores.size());
  check_finite(image);
  const double highest = *std::max_element(scores.begin(), scores.end());
  const float own = scores[static_cast<std::size_t>(image.label)];
  ClassOutcome outcome{.image_id = image.image_id, .label = image.label};
  std::array<float, kBestLabels> best_scores{};
  std::size_t kept = 0;
  double sum = 0;  // of exp(score - highest)
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const float score = scores[i];
    const auto label = static_cast<std::int32_t>(i);
    sum += std::exp(static_cast<double>(score) - highest);
    if (score > own || (score == own && label < image.label)) ++outcome.rank;
    // Labels come in ascending order: an equal score stays behind the earlier ones.
    std::size_t place = kept;
    while (place > 0 && score > best_scores[place - 1]) --place;
    if (place == kBestLabels) continue;
    kept = std::min(kept + 1, kBestLabels);
    for (std::size_t j = kept - 1; j > place; --j) {
      best_scores[j] = best_scores[j - 1];
      outcome.best[j] = outcome.best[j - 1];
    }
    best_scores[place] = score;
    outcome.best[place] = label;
  }
  for (std::size_t i = 0; i < kept; ++i) {
    outcome.probabilities[i] = std::exp(static_cast<double>(best_scores[i]) - highest) / sum;
  }
  outcome.loss = std::log(sum) + highest - static_cast<double>(own);
  return outcome;
}

}  // namespace retina
