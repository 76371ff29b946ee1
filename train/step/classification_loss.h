// The training loss of a classifier: cross-entropy, with how often the classifier was right.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retina {

struct ClassificationTargets {
  at::Tensor labels;  // [N] i64 dense
  at::Tensor counts;  // [N] i64: 0 for a pad slot, else 1
};

// Sums that a rank adds over its micro-batches and over ranks.
struct ClassificationLoss {
  at::Tensor cross_entropy;  // scalar, with its gradient
  at::Tensor top1, top5;     // scalars
};

// Of counting image n: -sum_k q_k log softmax(logits_n)_k with q = (1 - s) onehot(label) + s / K
// (Szegedy et al. 2016, section 7; s is `label_smoothing`); whether fewer than 1 or 5 classes score
// higher than the label's (of equal scores the lower label is the higher). Each divided by
// `images_global`, the real images of the whole step. logits [N, K] f32 or f64, or bf16 (computed
// in f32). Equals torch's cross_entropy (tests/parity).
ClassificationLoss classification_loss(const at::Tensor& logits,
                                       const ClassificationTargets& targets, double label_smoothing,
                                       std::int64_t images_global);

}  // namespace retina
