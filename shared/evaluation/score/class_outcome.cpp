#include "shared/evaluation/score/class_outcome.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  double sum = 0;  // of exp(score - highest)
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - highest);
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score_of = [&](std::int32_t label) { return scores[static_cast<std::size_t>(label)]; };
  const auto comes_before = [&](std::int32_t a, std::int32_t b) {
    return score_of(a) != score_of(b) ? score_of(a) > score_of(b) : a < b;
  };
  outcome.rank =
      static_cast<std::int32_t>(std::count_if(order.begin(), order.end(), [&](std::int32_t label) {
        return comes_before(label, image.label);
      }));
  const std::size_t kept = std::min(scores.size(), kBestLabels);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    comes_before);
  for (std::size_t i = 0; i < kept; ++i) {
    outcome.best[i] = order[i];
    outcome.probabilities[i] = std::exp(static_cast<double>(score_of(order[i])) - highest) / sum;
  }
  outcome.loss = std::log(sum) + highest - static_cast<double>(own);
  return outcome;
}

std::vector<const ClassOutcome*> mistakes_by_confidence(const std::vector<ClassOutcome>& outcomes) {
  std::vector<const ClassOutcome*> wrong;
  for (const ClassOutcome& one : outcomes) {
    if (!one.is_hit()) wrong.push_back(&one);
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const ClassOutcome* a, const ClassOutcome* b) {
    return a->confidence() > b->confidence();
  });
  return wrong;
}

}  // namespace retina
