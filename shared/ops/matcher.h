// Which anchor learns which box, by intersection over union (Girshick 2015; Lin et al. 2017, 4.1).
#pragma once

#include <ATen/core/Tensor.h>

#include "shared/ops/formulas.h"  // IWYU pragma: export, kBackground and kIgnored

namespace retina {

struct MatchOptions {
  // Anchors of at least this IoU with their best box are foreground.
  double foreground_iou = 0.5;
  // Anchors below it are background.
  double background_iou = 0.4;
  // The best anchors of each box (all that tie) become foreground whatever their IoU, each for its
  // own best box, which may be another one. A box that no anchor meets has none: torchvision's
  // Matcher gives it all, as each has its best IoU, 0.
  bool low_quality_matches = true;
};

// For each image and anchor the index of the anchor's box in `boxes`, or kBackground or kIgnored.
//   anchors [A, 4] xyxy px, the same for all images; boxes [G, 4], both f32 or both f64
//   offsets [N + 1] i64 on the same device: image n has boxes offsets[n] to offsets[n + 1] - 1,
//           perhaps none (all background)
//   returns [N, A] i64
// Ties go to the lower box index. Memory O(N A + G): no [G, A] matrix. Equals torchvision's box_iou
// + Matcher bit for bit (tests/ops), except for boxes that no anchor meets. No gradient;
// deterministic; on a GPU nothing waits for it.
at::Tensor match_anchors(const at::Tensor& anchors, const at::Tensor& boxes,
                         const at::Tensor& offsets, const MatchOptions& options);

}  // namespace retina
