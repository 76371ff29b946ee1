#include "evaluate/box_reading.h"

#include <algorithm>
#include <iterator>

#include "shared/base/cat.h"
#include "shared/coco/doubts.h"
#include "shared/evaluation/explain/metrics_text.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/ground_truth.h"

namespace retina {
namespace {

enum Layout : std::size_t { kCorner, kCorners, kCentre };
constexpr const char* kLayouts[] = {"x, y, width, height", "corners x1, y1, x2, y2",
                                    "centre x, centre y, width, height"};

struct Reading {
  Layout layout = kCorner;
  double whole = 0;  // the image's side in the boxes' unit; 0: its pixels
  bool swaps_axes = false;

  std::array<double, 4> xywh(std::array<double, 4> box, const ImageInfo& image) const {
    if (swaps_axes) box = {box[1], box[0], box[3], box[2]};
    for (std::size_t i = 0; whole > 0 && i < box.size(); ++i) {
      box[i] *= (i % 2 == 0 ? image.width : image.height) / whole;
    }
    for (const std::size_t i : {0, 1}) {
      if (layout == kCorners) box[i + 2] = std::max(box[i + 2] - box[i], 0.0);
      if (layout == kCentre) box[i] -= box[i + 2] / 2;
    }
    return box;
  }

  std::string text() const {
    return cat(
        kLayouts[layout], swaps_axes ? " with y before x" : "",
        whole > 0 ? cat(" in shares of the image's sides, of which ", whole, " is all") : "");
  }
};

std::vector<Reading> other_readings() {
  std::vector<Reading> all;
  for (const Layout layout : {kCorner, kCorners, kCentre}) {
    for (const double whole : {0.0, 1.0, 100.0, 1000.0}) {
      all.push_back({.layout = layout, .whole = whole});
      all.push_back({.layout = layout, .whole = whole, .swaps_axes = true});
    }
  }
  return all;
}

}  // namespace

std::string detections_doubt(const Instances& truth, const std::vector<Detection>& detections,
                             const CocoMetrics& metrics) {
  constexpr double kDoubtful = 0.5, kFarBetter = 1.5, kLeast = 0.1;
  constexpr std::int64_t kTried = 25;  // enough images to show the best reading
  std::string best;
  double best_ap = 0;
  const double ap = metrics.stats[kAp];
  if (!detections.empty() && ap >= 0 && ap < kDoubtful) {
    Instances some = truth;
    keep_first_images(some, kTried);
    std::vector<Detection> few;
    const BoxGroups groups(some, few);  // its images are used, not its boxes
    std::copy_if(
        detections.begin(), detections.end(), std::back_inserter(few),
        [&](const Detection& one) { return groups.image_place(one.image_id) != IdPlaces::kNone; });
    const auto ap_of = [&](const Reading& reading) {
      std::vector<Detection> read = few;
      for (Detection& one : read) {
        one.bbox = reading.xywh(one.bbox, groups.image(groups.image_place(one.image_id)));
      }
      const BoxGroups boxes(some, read, 0, metrics.detection_limit);
      return evaluate_detections(boxes).stats[kAp];
    };
    best_ap = std::max(kFarBetter * ap_of({}), kLeast);
    for (const Reading& reading : other_readings()) {
      const double its_ap = ap_of(reading);
      if (its_ap > best_ap) best = reading.text();
      best_ap = std::max(best_ap, its_ap);
    }
  }
  if (best.empty()) return boxes_beyond(truth, detections);
  return cat("AP is about ", metric_text(best_ap), " where the boxes are read as ", best,
             "; convert them to COCO's x, y, width, height in pixels");
}

}  // namespace retina
