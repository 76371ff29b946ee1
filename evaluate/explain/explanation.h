// Explains the numbers of metrics.h: kinds of errors and their cost, confusions, calibration, the
// best threshold of each class, the worst images, annotations that look wrong. One pass over the
// images that computes each IoU once, then one over the classes. No LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/explain/confusion.h"
#include "evaluate/explain/error_split.h"
#include "evaluate/explain/suspects.h"
#include "evaluate/explain/worst_images.h"
#include "shared/evaluation/score/calibration.h"
#include "shared/evaluation/score/metrics.h"

namespace retina {

struct ExplainOptions {
  int thread_count = 0;             // 0: usable_cores(); the result never depends on it
  double suspect_score = .5;        // from here on a detection speaks against an annotation
  std::size_t most_suspects = 100;  // suspects of each kind
  std::size_t most_worst = 24;      // images in each list of the worst
  std::size_t most_shown = 100;     // images with all their boxes
  std::size_t most_boxes = 30;      // detections of a shown image
};

struct ClassExplanation {
  std::optional<BestThreshold> best_threshold{};  // unset if nothing was found, or is to be found
  // Counts by FaultKind. False detections are filed under their class, missed objects under theirs;
  // those on crowd regions, which cost nothing, are left out.
  std::array<std::int64_t, kFaultKindCount> faults{};
};

struct Explanation {
  std::vector<ClassExplanation> per_class{};  // ascending category id, as in CocoMetrics
  ErrorSplit error_split{};
  Confusion confusion{};
  Calibration calibration{};
  WorstImages worst{};
  std::vector<Suspect> suspects{};  // by SuspectKind, best evidence first
  std::vector<ShownImage> shown{};
  // Names of all images above by their ids, as far as known.
  std::map<std::int64_t, std::string> file_names{};
};

// Explains what `evaluate_detections` measures. Detections of unknown categories count as absent,
// and only the best of an image and class are considered, boxes.detection_limit() of them. Takes 26
// bytes a detection besides the boxes. Parity of the error split: tests/evaluation/tide_test.cpp.
Explanation explain_detections(const BoxGroups& boxes, const ExplainOptions& options = {});

// Returns metrics.json: "stats" (the 12 numbers), the same by their names, "count_best" (of an
// image and class), the counts, "per_class" (a list), and the explanation of the numbers: each
// class's curves, best threshold and faults, then "error_split", "confusion", "calibration",
// "worst", "suspects", "images" and "file_names", each on a line of its own. `explanation` is of
// the same truth and detections; the curves are null unless the metrics have COCO's thresholds.
std::string metrics_json(const CocoMetrics& metrics, const Explanation& explanation);

}  // namespace retina
