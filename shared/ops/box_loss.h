// L1 loss on encoded boxes, over the foreground anchors only, value and gradient in one pass.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

// Per image: sum over foreground anchors and the 4 values of |delta - encode(box, anchor)|.
//   deltas  [N, A, 4] f32 or f64
//   anchors [A, 4] xyxy px
//   boxes   [G, 4] xyxy px, of all images one after the other
//   matches [N, A] i64: index into `boxes`, kBackground or kIgnored (matcher.h)
// returns [N] sums. Gradient: to deltas (0 where they are equal). Deterministic.
at::Tensor box_l1_loss(const at::Tensor& deltas, const at::Tensor& anchors, const at::Tensor& boxes,
                       const at::Tensor& matches);

}  // namespace retina
