// An explanation as keys of metrics.json.
#pragma once

#include "shared/base/json.h"
#include "shared/evaluation/explanation.h"

namespace retina {

// Into an entry of "per_class": "best_threshold" and "faults".
void write_class_explanation(const ClassExplanation& explanation, JsonWriter& json);

// Into the top level: "error_split", "confusion", "calibration", "worst", "suspects", "images".
void write_explanation(const Explanation& explanation, JsonWriter& json);

}  // namespace retina
