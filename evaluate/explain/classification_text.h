// A classifier's evaluation as text: for a terminal, and metrics.json with example images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/evaluation/score/class_outcome.h"
#include "shared/evaluation/score/classification.h"
#include "shared/shard/image_index.h"

namespace retina {

inline constexpr const char* kClassificationTask = "classification";  // "task" in metrics.json

struct ConfusedExamples {
  ConfusedPair pair{};
  std::vector<std::int64_t> image_ids{};  // the most confident first
};

struct ClassExamples {
  std::vector<std::int64_t> confident_wrong{};    // ids, the most confident first
  std::vector<ConfusedExamples> most_confused{};  // two different classes, the most frequent first
  std::vector<ClassOutcome> shown{};              // outcomes of all ids above, ascending, each once
};

// Selects the examples: 24 mistakes, 50 pairs with up to 3 images each. Equally confident images
// stay in ascending id order, equally frequent pairs in that of their labels. `metrics` are those
// of `outcomes`.
ClassExamples class_examples(const std::vector<ClassOutcome>& outcomes,
                             const ClassificationMetrics& metrics);

// Returns the headline metrics with their intervals, a line each.
std::string classification_summary_text(const ClassificationMetrics& metrics);

// Returns one row a class, in label order; "-" for values that do not exist. For terminals: control
// characters of a name are escaped.
std::string classification_table_text(const ClassificationMetrics& metrics);

// Returns oddities that the user should know besides the numbers, in one line; empty if there are
// none.
std::string classification_oddities_text(const ClassificationMetrics& metrics);

// Returns metrics.json. Ids are the data set's own; null stands for values that do not exist. Every
// image of `examples` is among those with an image, and has its file name if `file_names` has it.
std::string classification_json(const ClassificationMetrics& metrics, const ClassExamples& examples,
                                const FileNames& file_names);

// Returns a share for people: three decimals, "-" for nothing.
std::string share_text(const std::optional<double>& value);

}  // namespace retina
