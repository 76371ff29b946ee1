#include "evaluate/box_reading.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/coco/box_warnings.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics_text.h"

namespace retina {

std::string detections_warning(const Instances& truth, const std::vector<Detection>& detections,
                               const CocoMetrics& metrics) {
  constexpr double kDoubtful = 0.5, kFarBetter = 1.5, kLeast = 0.1;
  constexpr std::int64_t kTried = 25;  // enough images to show the best reading
  constexpr const char* kLayouts[] = {"x, y, width, height", "corners x1, y1, x2, y2",
                                      "centre x, centre y, width, height"};
  const double ap = metrics.stats[kAp];
  if (detections.empty() || ap < 0 || ap >= kDoubtful) {
    return boxes_outside_warning(truth, detections);
  }
  Instances some = truth;
  keep_first_images(some, kTried);
  std::vector<Detection> none;
  const BoxGroups images(some, none);
  std::string best;
  double best_ap = 0;
  for (const double whole :
       {0.0, 1.0, 100.0, 1000.0}) {  // the image's side in the boxes' unit; 0: pixels
    for (std::size_t layout = 0; layout < std::size(kLayouts); ++layout) {
      std::vector<Detection> read;
      for (Detection one : detections) {
        const std::size_t place = images.image_place(one.image_id);
        if (place == IdPlaces::kNone) continue;
        const ImageInfo& image = images.image(place);
        for (std::size_t i = 0; whole > 0 && i < 4; ++i) {
          one.bbox[i] *= (i % 2 == 0 ? image.width : image.height) / whole;
        }
        for (const std::size_t i : {0, 1}) {
          if (layout == 1) one.bbox[i + 2] = std::max(one.bbox[i + 2] - one.bbox[i], 0.0);
          if (layout == 2) one.bbox[i] -= one.bbox[i + 2] / 2;
        }
        read.push_back(one);
      }
      const double its_ap =
          evaluate_detections(BoxGroups(some, read, 0, metrics.detection_limit)).stats[kAp];
      const bool is_as_given = whole == 0 && layout == 0;
      if (is_as_given) best_ap = std::max(kFarBetter * its_ap, kLeast);
      if (is_as_given || its_ap <= best_ap) continue;
      best_ap = its_ap;
      best =
          cat(kLayouts[layout],
              whole > 0 ? cat(" in shares of the image's sides, of which ", whole, " is all") : "");
    }
  }
  if (best.empty()) return boxes_outside_warning(truth, detections);
  return cat("AP is about ", metric_text(best_ap), " where the boxes are read as ", best,
             "; convert them to COCO's x, y, width, height in pixels");
}

}  // namespace retina
