// All losses of the heads.
#pragma once

#include <torch/types.h>

#include <vector>

#include "shared/ops/head_losses.h"

namespace retina {

using Tensors = std::vector<at::Tensor>;

// Sums and gradients of each: of the focal loss with two gammas, the quality losses, the box
// losses. `x`: matches, labels, weights, anchors, boxes, and logits and deltas of all levels'
// anchors.
inline Tensors losses_of(const Tensors& x, const std::vector<std::int64_t>& level_anchors) {
  const auto levels = [&](const at::Tensor& all) { return all.split_with_sizes(level_anchors, 1); };
  const at::Tensor &matches = x[0], &labels = x[1], &weights = x[2], &anchors = x[3], &truth = x[4];
  const Tensors logits = levels(x[5]), deltas = levels(x[6]);
  const PredictedBoxes predicted = {.deltas = deltas, .anchors = anchors, .boxes = truth};
  Tensors all;
  const auto add = [&all](const LossSums& loss) {
    all.insert(all.end(), {loss.sums, torch::cat(loss.gradients, 1)});
  };
  for (const FocalOptions& options :
       {FocalOptions{.alpha = 0.25, .gamma = 2}, FocalOptions{.alpha = 0.6, .gamma = 1.5}}) {
    add(focal_loss(logits, matches, labels, weights, options));
  }
  for (const ClassLossKind kind : {ClassLossKind::kQualityFocal, ClassLossKind::kVarifocal}) {
    add(quality_loss(logits, predicted, matches, labels, weights, kind));
  }
  for (const BoxLossKind kind :
       {BoxLossKind::kL1, BoxLossKind::kSmoothL1, BoxLossKind::kGiou, BoxLossKind::kCiou}) {
    add(box_loss(deltas, anchors, truth, matches, weights, {.kind = kind, .target_std = 0.2}));
  }
  return all;
}

}  // namespace retina
