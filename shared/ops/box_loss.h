// Regression losses over the foreground anchors only, value and gradient in one pass: L1
// (torchvision v1), smooth L1 (Girshick 2015) on encoded boxes, GIoU (Rezatofighi et al. 2019,
// torchvision v2) on decoded ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/ops/box_loss_kind.h"
#include "shared/ops/loss_sums.h"

namespace retina {

// Per image: the sum over foreground anchors of
//   L1         sum of |e| over the 4 values, e = (delta - encode(box, anchor)) / target_std
//   smooth L1  sum of e^2 / (2 beta) where |e| < beta, else |e| - beta / 2
//   GIoU       1 - I / (U + eps) + (C - U) / (C + eps) of decode(delta, anchor) and box: areas of
//              intersection, union and smallest enclosing box, eps 1e-7
//   deltas  up to 8 levels, [N, a, 4] each, all f32, f64, or bf16 (computed in f32)
//   anchors [A, 4] xyxy px, of all levels
//   boxes   [G, 4] xyxy px, of all images one after the other; both f32 or f64 as is computed in
//   matches [N, A] i64: index into `boxes`, kBackground or kIgnored (matcher.h)
//   weights [N] of the images' gradients, type as the boxes
// Where a maximum ties, half of the gradient goes to each side, as autograd has it. Deterministic.
// Equals torchvision's l1, smooth_l1 and giou losses (tests/parity) and central differences in f64
// (tests/ops).
LossSums box_loss(const std::vector<at::Tensor>& deltas, const at::Tensor& anchors,
                  const at::Tensor& boxes, const at::Tensor& matches, const at::Tensor& weights,
                  const BoxLossOptions& options);

}  // namespace retina
