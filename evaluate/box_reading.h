// Detects results of other programs whose boxes follow another convention than COCO's.
#pragma once

#include <string>

#include "shared/evaluation/score/metrics.h"

namespace retina {

// Returns a warning, or "". Where AP is below 0.5, scores the boxes on up to 25 images again, read
// as corners, about their centre and as shares of the image's sides, and names the best reading if
// it finds far more; else returns boxes_outside_warning().
std::string detections_warning(const Instances& truth, const std::vector<Detection>& detections,
                               const CocoMetrics& metrics);

}  // namespace retina
