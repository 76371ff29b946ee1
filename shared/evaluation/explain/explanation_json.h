// An explanation as keys of metrics.json.
#pragma once

#include <string>

#include "shared/base/json.h"
#include "shared/evaluation/explain/explanation.h"

namespace retina {

// Into an entry of "per_class": "best_threshold" and "faults".
void write_class_explanation(const ClassExplanation& explanation, JsonWriter& json);

// The top level's "error_split", "confusion", "calibration", "worst", "suspects" and "images", each
// on a line of its own: `"error_split": {...},` and so on, without a comma after the last.
std::string explanation_lines(const Explanation& explanation);

}  // namespace retina
