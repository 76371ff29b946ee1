// Sigmoid focal loss (Lin et al. 2017, eq. 5), value and gradient in one pass over the logits,
// where the head wrote them: without a one-hot target or a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/ops/loss_sums.h"

namespace retina {

struct FocalOptions {
  double alpha = 0.25;  // weight of the foreground terms
  double gamma = 2.0;   // discount of easy terms
};

// Per image: sum over anchors and classes of -alpha_t (1 - p_t)^gamma log(p_t), where class
// labels[matches] is the target of a foreground anchor, background has none, and ignored anchors
// are left out.
//   logits  up to 8 levels, [N, a, K] each, all f32, f64, or bf16 (computed in f32)
//   matches [N, A] i64, A the anchors of all levels: index into `labels`, kBackground or kIgnored
//           (matcher.h)
//   labels  [G] i64 in 0..K-1, the boxes of all images one after the other
//   weights [N] of the images' gradients, f32 or f64 as is computed in
// Deterministic for any thread count. Equals torchvision's sigmoid_focal_loss (tests/ops) and
// central differences in f64.
LossSums focal_loss(const std::vector<at::Tensor>& logits, const at::Tensor& matches,
                    const at::Tensor& labels, const at::Tensor& weights,
                    const FocalOptions& options);

}  // namespace retina
