// Regression losses over the foreground anchors only, value and gradient in one pass: L1
// (torchvision v1), smooth L1 (Girshick 2015) on encoded boxes, GIoU (Rezatofighi et al. 2019,
// torchvision v2) on decoded ones.
#pragma once

#include <ATen/core/Tensor.h>

#include "shared/ops/box_loss_kind.h"

namespace retina {

// Per image: the sum over foreground anchors of
//   L1         sum of |e| over the 4 values, e = (delta - encode(box, anchor)) / target_std
//   smooth L1  sum of e^2 / (2 beta) where |e| < beta, else |e| - beta / 2
//   GIoU       1 - I / (U + eps) + (C - U) / (C + eps) of decode(delta, anchor) and box: areas of
//              intersection, union and smallest enclosing box, eps 1e-7
//   deltas  [N, A, 4] f32 or f64
//   anchors [A, 4] xyxy px
//   boxes   [G, 4] xyxy px, of all images one after the other
//   matches [N, A] i64: index into `boxes`, kBackground or kIgnored (matcher.h)
// returns [N] sums. Gradient: to deltas (where a maximum ties, half to each side, as autograd has
// it). Deterministic. Equals torchvision's l1, smooth_l1 and giou losses (tests/parity) and central
// differences in f64 (tests/ops).
at::Tensor box_loss(const at::Tensor& deltas, const at::Tensor& anchors, const at::Tensor& boxes,
                    const at::Tensor& matches, const BoxLossOptions& options);

}  // namespace retina
