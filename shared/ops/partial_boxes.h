// Anchors at boxes that are neither objects to find nor background: where a tile shows too little
// of an object (RecordAnnotation::is_partial). After the assigners, matcher.h and atss.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

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
