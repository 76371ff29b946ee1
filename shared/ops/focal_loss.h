// Sigmoid focal loss (Lin et al. 2017, eq. 5), value and gradient in one pass over the logits,
// without a one-hot target.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

struct FocalOptions {
  double alpha = 0.25;  // weight of the foreground terms
  double gamma = 2.0;   // discount of easy terms
};

// Per image: sum over anchors and classes of -alpha_t (1 - p_t)^gamma log(p_t), where class
// labels[matches] is the target of a foreground anchor, background has none, and ignored anchors
// are left out.
//   logits  [N, A, K] f32 or f64
//   matches [N, A] i64: index into `labels`, kBackground or kIgnored (matcher.h)
//   labels  [G] i64 in 0..K-1, the boxes of all images one after the other
// returns [N] sums. Gradient: to logits. Deterministic for any thread count. Equals torchvision's
// sigmoid_focal_loss (tests/ops) and central differences in f64.
at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& matches, const at::Tensor& labels,
                      const FocalOptions& options);

}  // namespace retina
