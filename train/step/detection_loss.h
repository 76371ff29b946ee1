// The training loss of RetinaNet (Lin et al. 2017, section 4.1): focal loss over all anchors plus
// a regression loss on the boxes of the matched ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shared/model/head_outputs.h"
#include "shared/ops/box_loss.h"
#include "shared/ops/matcher.h"

namespace retina {

struct LossOptions {
  // Weight of foreground against background terms (Lin et al. 2017, eq. 5).
  double focal_alpha = 0.25;
  // How strongly easy anchors are discounted (same).
  double focal_gamma = 2.0;
  // How far the boxes of foreground anchors are off: torchvision's v1 has L1, its v2 GIoU.
  BoxLossOptions box = {};
  // Which anchors are foreground, background or neither.
  MatchOptions match = {};

  // Throws Error{kUsage} naming the field, what it got and what it may be.
  void validate() const;
};

// The boxes of one slot of a batch.
struct BoxTargets {
  at::Tensor boxes;    // [G, 4] f32 xyxy px of the resized image, not degenerate; G may be 0
  at::Tensor labels;   // [G] i64 dense
  bool counts = true;  // false for a pad slot: no loss, no gradient
};

// Sums that a rank adds over its steps' micro-batches and over ranks.
struct DetectionLoss {
  at::Tensor classification;  // scalar
  at::Tensor box_regression;  // scalar
};

// Per image i with matches m: focal(logits_i) summed over anchors that are not between thresholds /
// max(1, foreground_i), and the box loss (box_loss.h) summed over foreground anchors /
// max(1, foreground_i); both summed over counting images and divided by `images_global`
// (the real images of the whole global step, so that ranks sum).
//   outputs  logits [N, A, K], deltas [N, A, 4], f32 or f64
//   anchors  [A, 4] xyxy px, same type and device
//   targets  N entries; boxes convert to that type and device
// Gradient: to logits and deltas. Deterministic. Copies of boxes, labels and shares to a GPU wait
// for what was launched before, the forward pass; the result is not waited for. Parity with
// torchvision's compute_loss: tests/train/step, tests/parity.
DetectionLoss detection_loss(const HeadOutputs& outputs, const at::Tensor& anchors,
                             const std::vector<BoxTargets>& targets, const LossOptions& options,
                             std::int64_t images_global);

}  // namespace retina
