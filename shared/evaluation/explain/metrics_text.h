// The COCO metrics as text: the 12 familiar lines, a table with a row a class.
#pragma once

#include <string>

#include "shared/evaluation/score/metrics.h"

namespace retina {

// pycocotools' 12 lines, to the letter.
std::string coco_summary_text(const CocoMetrics& metrics);

// What to say in their place where all are -1: that nothing is there to be found. Else empty.
std::string no_truth_text(const CocoMetrics& metrics);

// One row a class (AP, AP50, AP75, by size, AR100 or what counts, objects), ascending category id;
// "-" for nothing to find. For terminals: control characters of a name are escaped.
std::string class_table_text(const CocoMetrics& metrics);

// What a user should know besides the numbers, in one line: that nothing is there to be found or,
// for its id, one object never is; how many images of the set are quarantined, how many detections
// have a category that is not in the annotations, how many a score of 0 or less. Empty when there
// is nothing to say.
std::string oddities_text(const CocoMetrics& metrics);

// The key of one of the 12 numbers where the `count_best` best detections of an image and class
// count: "AP", "AR_small", "AR100"; on tiles "AR10000".
std::string stat_key(std::size_t stat, std::uint32_t count_best);

// A metric for people: three decimals, "-" for nothing to find.
std::string metric_text(double value);

}  // namespace retina
