// A classifier's evaluation as text: for a terminal, and metrics.json.
#pragma once

#include <optional>
#include <string>

#include "shared/evaluation/explain/class_examples.h"
#include "shared/evaluation/score/classification.h"
#include "shared/shard/image_index.h"

namespace retina {

inline constexpr const char* kClassificationTask = "classification";  // "task" in metrics.json

// The headline metrics with their intervals, a line each.
std::string classification_summary_text(const ClassificationMetrics& metrics);

// One row a class, in label order; "-" for what does not exist. For terminals: control characters
// of a name are escaped.
std::string classification_table_text(const ClassificationMetrics& metrics);

// What a user should know besides the numbers, in one line; empty when there is nothing.
std::string classification_oddities_text(const ClassificationMetrics& metrics);

// metrics.json. Ids are the data set's own; null stands for what does not exist. Every image of
// `examples` is among those with an image, which has its file name where `file_names` has it.
std::string classification_json(const ClassificationMetrics& metrics, const ClassExamples& examples,
                                const FileNames& file_names);

// For people: three decimals, "-" for nothing.
std::string share_text(const std::optional<double>& value);

}  // namespace retina
