// Example images of a classifier's evaluation: its most confident mistakes, and its most frequent
// confusions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/evaluation/score/class_outcome.h"
#include "shared/evaluation/score/classification.h"

namespace retina {

// Returns the mistakes, the most confident first. Borrowed from `outcomes`.
std::vector<const ClassOutcome*> mistakes_by_confidence(const std::vector<ClassOutcome>& outcomes);

struct ClassExampleOptions {
  std::size_t most_wrong = 24;
  std::size_t most_pairs = 50;
  std::size_t most_of_pair = 3;  // shown images of a pair
};

struct ConfusedExamples {
  ConfusedPair pair{};
  std::vector<std::int64_t> image_ids{};  // the most confident first
};

struct ClassExamples {
  std::vector<std::int64_t> confident_wrong{};    // ids, the most confident first
  std::vector<ConfusedExamples> most_confused{};  // two different classes, the most frequent first
  std::vector<ClassOutcome> shown{};              // of all ids above, ascending, each once
};

// Selects the examples. Equally confident images stay in ascending id order, equally frequent pairs
// in that of their labels. `metrics` are those of `outcomes`.
ClassExamples class_examples(const std::vector<ClassOutcome>& outcomes,
                             const ClassificationMetrics& metrics,
                             const ClassExampleOptions& options = {});

}  // namespace retina
