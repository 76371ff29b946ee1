// The COCO metrics as text: the 12 familiar lines, a table with a row a class, metrics.json.
#pragma once

#include <string>

#include "shared/evaluation/explain/explanation.h"
#include "shared/evaluation/score/metrics.h"

namespace retina {

// pycocotools' 12 lines, to the letter.
std::string coco_summary_text(const CocoMetrics& metrics);

// What to say in their place where all are -1: that nothing is there to be found. Else empty.
std::string no_truth_text(const CocoMetrics& metrics);

// One row a class (AP, AP50, AP75, by size, AR100, objects), ascending category id; "-" for nothing
// to find. For terminals: control characters of a name are escaped.
std::string class_table_text(const CocoMetrics& metrics);

// What a user should know besides the numbers, in one line: that nothing is there to be found or,
// for its id, one object never is; how many images of the set are quarantined, how many detections
// have a category that is not in the annotations, how many a score of 0 or less. Empty when there
// is nothing to say.
std::string oddities_text(const CocoMetrics& metrics);

// metrics.json: "stats" (the 12 numbers), the same by their names, "per_class" (a list), the
// counts.
std::string metrics_json(const CocoMetrics& metrics);
// The same with what explains the numbers, of the same truth and detections and COCO's thresholds:
// curves, kinds of faults and the rest of explanation.h.
std::string metrics_json(const CocoMetrics& metrics, const Explanation& explanation);

// The key of one of the 12 numbers in metrics.json: "AP", "AR_small".
const char* stat_key(std::size_t stat);

// A metric for people: three decimals, "-" for nothing to find.
std::string metric_text(double value);

}  // namespace retina
