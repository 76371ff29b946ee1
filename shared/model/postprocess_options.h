// Which detections are kept.
#pragma once

namespace retina {

struct PostprocessOptions {
  // Candidates score above this. Lower finds more, slower.
  double score_threshold = 0.05;
  // A box that overlaps a better one of its class by more than this IoU goes.
  double nms_threshold = 0.5;
  // Best candidates kept of each level before suppression.
  int candidates_per_level = 1000;
  // Best detections kept of each image.
  int max_detections = 300;

  // Throws Error{kUsage} naming the field.
  void validate() const;
};

}  // namespace retina
