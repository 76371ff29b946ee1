// The training loss of RetinaNet (Lin et al. 2017, section 4.1): focal loss over all anchors plus
// a regression loss on the boxes of the matched ones.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "shared/data/batch.h"
#include "shared/model/heads.h"
#include "shared/ops/atss.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"

namespace retina {

// Assignment of anchors by a threshold of the IoU (matcher.h), or by one for each box (atss.h).
enum class Assigner { kIou, kAtss };

struct LossOptions {
  // Weight of foreground against background terms (Lin et al. 2017, eq. 5).
  double focal_alpha = 0.25;
  // Exponent that discounts easy anchors (same).
  double focal_gamma = 2.0;
  // The focal loss, with these two, or a loss that learns how well boxes are predicted.
  ClassLossKind class_loss = ClassLossKind::kFocal;
  // Loss of the boxes of foreground anchors: torchvision's v1 has L1, its v2 GIoU.
  BoxLossOptions box = {};
  // Weight of the box loss beside the class loss; 2 in Zhang et al. 2020's and Li et al. 2020's
  // code.
  double box_weight = 1;
  // Rule that makes anchors foreground, background or neither; `match` is kIou's.
  Assigner assigner = Assigner::kIou;
  MatchOptions match = {};
};

// The ground truth of a batch as tensors on the network's device.
struct BatchTargets {
  at::Tensor boxes;    // [G, 4] f32 xyxy px of the resized images, not degenerate, image by image
  at::Tensor labels;   // [G] i64 dense
  at::Tensor offsets;  // [N + 1] i64: image n has boxes offsets[n] to offsets[n + 1] - 1
  at::Tensor counts;   // [N] i64: 1, or 0 for a pad slot: no loss, no gradient
  // Boxes that are neither objects nor background (ops/matcher.h), as `boxes` and `offsets`;
  // undefined where the batch has none.
  at::Tensor partial_boxes = {}, partial_offsets = {};
  PixelSize padded = {};  // the images' size, whose anchors are matched; for kAtss
};

// Returns the targets in one copy, which a GPU makes without waiting.
BatchTargets batch_targets(const Batch& batch, c10::Device device);

// Sums that a rank adds over its steps' micro-batches and over ranks, and their gradient.
struct DetectionLoss {
  at::Tensor classification;  // scalar
  at::Tensor box_regression;  // scalar
  // Outputs that want a gradient, and the gradient of both sums together at each.
  std::vector<at::Tensor> outputs = {}, gradients = {};

  // Backpropagates from the outputs to the parameters.
  void backward() const;
};

// Computes, for each image i with matches m, the class loss of logits_i summed over anchors that
// are not ignored / max(1, foreground_i), and box_weight times the box loss (head_losses.h) summed
// over foreground anchors / max(1, foreground_i); both are summed over counting images and divided
// by `images_global` (the real images of the whole global step, so that ranks sum).
//   outputs  f32 or f64, or bf16 or f16 (computed in f32)
//   anchors  [A, 4] xyxy px, of the type that is computed in
//   targets  boxes convert to that type
//   gradient_scale  scalar f32: the gradients, not the sums, are times that, and rounded after it;
//            undefined: 1
// All on one device. Deterministic; on a GPU nothing waits for it. Parity with torchvision's
// compute_loss: tests/train/step, tests/parity.
DetectionLoss detection_loss(const HeadOutputs& outputs, const at::Tensor& anchors,
                             const BatchTargets& targets, const LossOptions& options,
                             std::int64_t images_global, const at::Tensor& gradient_scale = {});

}  // namespace retina
