// Which update rule, and its numbers.
#pragma once

#include <optional>

#include "shared/base/choices.h"

namespace retina {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

inline const Choices<OptimizerKind> kOptimizers = {
    {"sgd", OptimizerKind::kSgd}, {"adam", OptimizerKind::kAdam}, {"adamw", OptimizerKind::kAdamW}};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;       // SGD: v = momentum v + g, w -= lr v (no dampening, no Nesterov)
  double weight_decay = 1e-4;  // SGD and Adam: added to the gradient; AdamW: decoupled
  // Decay of the normalisation layers' weights and biases; unset: as all others.
  std::optional<double> norm_weight_decay = {};
  double beta1 = 0.9, beta2 = 0.999;  // Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019)
  double epsilon = 1e-8;
};

}  // namespace retina
