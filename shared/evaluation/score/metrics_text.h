// The COCO metrics as text: the 12 familiar lines, a table with a row a class.
#pragma once

#include <string>

#include "shared/evaluation/score/metrics.h"

namespace retina {

// Returns pycocotools' 12 lines, to the letter.
std::string coco_summary_text(const CocoMetrics& metrics);

// Returns a sentence to replace the lines if all are -1, because there is nothing to find; else
// empty.
std::string no_truth_text(const CocoMetrics& metrics);

// Returns one row a class (AP, AP50, AP75, by size, AR100 or at the evaluation's limit, objects),
// ascending category id; "-" if there is nothing to find. For terminals: control characters of a
// name are escaped.
std::string class_table_text(const CocoMetrics& metrics);

// Returns oddities that the user should know besides the numbers, in one line: that there is
// nothing to find or no detection at all, that objects can never be found (an id of 0, more of a
// class in an image than detections count), and how many images are quarantined and how many
// detections have a category that is not in the annotations, a score of 0 or less or above 1, or an
// empty box. Empty if there are none.
std::string oddities_text(const CocoMetrics& metrics);

// Returns a sentence about quarantined images; empty for none.
std::string quarantined_text(std::int64_t count);

// Returns the key of one of the 12 numbers if the `count_best` best detections of an image and
// class count: "AP", "AR_small", "AR100"; on tiles "AR10000".
std::string stat_key(std::size_t stat, std::uint32_t count_best);

// Returns a metric for people: three decimals, "-" if there is nothing to find.
std::string metric_text(double value);

}  // namespace retina
