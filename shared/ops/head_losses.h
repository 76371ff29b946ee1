// The losses over the outputs of RetinaNet's heads, of classes and of boxes, value and gradient in
// one pass, where the heads wrote them: without one-hot targets or copies. All are deterministic
// for any thread count.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/ops/loss_kinds.h"

namespace retina {

struct LossSums {
  // [N], of each image; f32, or f64 for outputs in f64.
  at::Tensor sums;
  // One for each level's outputs, of their shape and type: of the sum over images of weights[n]
  // times sums[n].
  std::vector<at::Tensor> gradients;
};

struct FocalOptions {
  double alpha = 0.25;  // weight of the foreground terms
  double gamma = 2.0;   // discount of easy terms
};

// Sigmoid focal loss (Lin et al. 2017, eq. 5). Per image: sum over anchors and classes of -alpha_t
// (1 - p_t)^gamma log(p_t), where class labels[matches] is the target of a foreground anchor,
// background has none, and ignored anchors do not count.
//   logits  up to 8 levels, [N, a, K] each, all f32, f64, or bf16 or f16 (computed in f32)
//   matches [N, A] i64, A the anchors of all levels: index into `labels`, kBackground or kIgnored
//           (matcher.h)
//   labels  [G] i64 in 0..K-1, the boxes of all images one after the other
//   weights [N] of the images' gradients, f32 or f64 as is computed in
// Equals torchvision's sigmoid_focal_loss (tests/ops) and central differences in f64.
LossSums focal_loss(const std::vector<at::Tensor>& logits, const at::Tensor& matches,
                    const at::Tensor& labels, const at::Tensor& weights,
                    const FocalOptions& options);

// Predictions and ground truth of boxes, whose overlap is the target of a quality loss.
struct PredictedBoxes {
  const std::vector<at::Tensor>& deltas;  // as box_loss()'s, like the two below
  const at::Tensor &anchors, &boxes;
};

// Focal losses whose target of a foreground anchor's class is not 1 but q, the IoU of the anchor's
// decoded box with its ground truth (0 where they do not meet), a constant: no gradient goes
// through it. Per image the sum over anchors and classes, p = sigmoid(logit), BCE(p, q) =
// -q log(p) - (1 - q) log(1 - p), of
//   kQualityFocal  |q - p|^2 BCE(p, q), q = 0 but for foreground (Li et al. 2020, "Generalized
//                  focal loss", eq. 3, beta 2)
//   kVarifocal     q BCE(p, q) where q > 0, else 0.75 p^2 BCE(p, 0) (Zhang et al. 2021,
//                  "VarifocalNet", eq. 2, alpha 0.75 and gamma 2)
// Ignored anchors do not count.
//   logits, matches, labels, weights  of focal_loss
// Equals the papers' formulas in PyTorch (tests/parity) and central differences in f64 (tests/ops).
LossSums quality_loss(const std::vector<at::Tensor>& logits, const PredictedBoxes& predicted,
                      const at::Tensor& matches, const at::Tensor& labels,
                      const at::Tensor& weights, ClassLossKind kind);

// Regression losses over the foreground anchors only: L1 (torchvision v1), smooth L1 (Girshick
// 2015) on encoded boxes, GIoU (Rezatofighi et al. 2019, torchvision v2) and CIoU (Zheng et al.
// 2020, "Distance-IoU loss", eq. 10) on decoded ones. Per image: the sum over foreground anchors of
//   L1         sum of |e| over the 4 values, e = (delta - encode(box, anchor)) / target_std
//   smooth L1  sum of e^2 / (2 beta) where |e| < beta, else |e| - beta / 2
//   GIoU       1 - I / (U + eps) + (C - U) / (C + eps) of decode(delta, anchor) and box: areas of
//              intersection, union and smallest enclosing box, eps 1e-7
//   CIoU       1 - I / (U + eps) + d^2 / (c^2 + eps) + alpha v: d between the centres, c the
//              diagonal of the smallest enclosing box, v = 4 / pi^2 times the square of the
//              difference of atan(width / height); alpha = v / (1 - IoU + v + eps) is a constant
//   deltas  up to 8 levels, [N, a, 4] each, all f32, f64, or bf16 or f16 (computed in f32)
//   anchors [A, 4] xyxy px, of all levels
//   boxes   [G, 4] xyxy px, of all images one after the other; both f32 or f64 as is computed in
//   matches, weights as above; the type of `weights` is the boxes'
// Gives half of the gradient to each side where a maximum ties, as autograd does. Equals
// torchvision's l1, smooth_l1, giou and ciou losses (tests/parity) and central differences in f64
// (tests/ops).
LossSums box_loss(const std::vector<at::Tensor>& deltas, const at::Tensor& anchors,
                  const at::Tensor& boxes, const at::Tensor& matches, const at::Tensor& weights,
                  const BoxLossOptions& options);

}  // namespace retina
