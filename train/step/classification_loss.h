// The training loss of a classifier: cross-entropy, and the rates of correct answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retina {

struct ClassificationTargets {
  at::Tensor labels;  // [N] i64 in [0, K), pad slots included
  at::Tensor counts;  // [N] i64: 0 for a pad slot, else 1
};

// Sums that a rank adds over its micro-batches and over ranks.
struct ClassificationLoss {
  at::Tensor cross_entropy;  // scalar, with its gradient
  at::Tensor top1, top5;     // scalars
};

// Returns, for this micro-batch, sums over the real images n, each divided by `images_global`, the
// real images of the whole step: the cross-entropy -sum_k q_k log softmax(logits_n)_k with
// q = (1 - s) onehot(label) + s / K (Szegedy et al. 2016, section 7; s is `label_smoothing`); top1
// and top5: 1 if fewer than 1 or 5 classes score above the label (ties go to the lower label).
// logits [N, K] f32 or f64, or bf16 or f16 (computed in f32). Equals torch's cross_entropy
// (tests/parity).
ClassificationLoss classification_loss(const at::Tensor& logits,
                                       const ClassificationTargets& targets, double label_smoothing,
                                       std::int64_t images_global);

}  // namespace retina
