// Which update rule, and its numbers.
#pragma once

#include <optional>

#include "shared/base/choices.h"

namespace retina {

enum class OptimizerKind { kSgd, kAdam, kAdamW, kRmsprop };

inline const Choices<OptimizerKind> kOptimizers = {{"sgd", OptimizerKind::kSgd},
                                                   {"adam", OptimizerKind::kAdam},
                                                   {"adamw", OptimizerKind::kAdamW},
                                                   {"rmsprop", OptimizerKind::kRmsprop}};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;       // SGD: v = momentum v + g, w -= lr v (no dampening, no Nesterov)
  double weight_decay = 1e-4;  // added to the gradient; AdamW: decoupled
  // Decay of the normalisation layers' weights and biases; unset: as all others.
  std::optional<double> norm_weight_decay = {};
  double beta1 = 0.9, beta2 = 0.999;  // Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019)
  double epsilon = 1e-8;              // of Adam and AdamW
  // RMSprop (Tieleman & Hinton 2012): v = rho v + (1 - rho) g^2, w -= lr g / (sqrt(v) + epsilon),
  // Keras' numbers: its epsilon too is outside the root.
  double rho = 0.9, rmsprop_epsilon = 1e-7;
};

}  // namespace retina
