// metrics.json of a detector's evaluation.
#pragma once

#include <string>

#include "evaluate/explain/explanation.h"
#include "shared/evaluation/score/metrics.h"

namespace retina {

// Returns metrics.json: "stats" (the 12 numbers), the same by their names, "count_best" (of an
// image and class), the counts, "per_class" (a list), and the explanation of the numbers: each
// class's curves, best threshold and faults, then "error_split", "confusion", "calibration",
// "worst", "suspects", "images" and "file_names", each on a line of its own. `explanation` is of
// the same truth and detections; the curves are null unless the metrics have COCO's thresholds.
std::string metrics_json(const CocoMetrics& metrics, const Explanation& explanation);

}  // namespace retina
