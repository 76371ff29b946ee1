// Assignment of boxes to anchors by intersection over union (Girshick 2015; Lin et al. 2017, 4.1).
// After this assigner or atss.h, anchors are ignored at boxes that are neither objects to find nor
// background: where a tile shows too little of an object (RecordAnnotation::is_partial).
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

// The partial boxes of a batch, on the anchors' device.
struct PartialBoxes {
  const at::Tensor& boxes;    // [P, 4] xyxy px, of the anchors' type
  const at::Tensor& offsets;  // [N + 1] i64: image n has boxes offsets[n] to offsets[n + 1] - 1
  const at::Tensor& claims;   // [N, A] i64: the assigner's matches with these boxes alone
};

// In `matches` [N, A] i64, the assigner's with the real boxes alone, makes kIgnored of each
// kBackground whose anchor
//   - some partial box claims: in `claims` it is not kBackground, or
//   - lies inside a partial box with at least half of its own area.
// So partial boxes neither take an anchor from a real box nor change what one asks of its anchors.
// An anchor with an IoU of 0.5 or more with one is never background, whatever the assigner: of its
// own area at least that much is inside. Images without partial boxes keep their matches.
//   anchors [A, 4] xyxy px, f32 or f64
// The second rule is that of MMDetection's assigners with ignore_iof_thr 0.5, which take more than
// the half, have no first rule, and ignore anchors of real boxes too: here a real box beside a
// partial one keeps its anchors. Each anchor by itself: deterministic, the same on CPUs and GPUs;
// on a GPU nothing waits for it.
void ignore_partial_boxes(const at::Tensor& anchors, const PartialBoxes& partial,
                          const at::Tensor& matches);

}  // namespace retina
