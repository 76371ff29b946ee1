// SGD, Adam, AdamW and RMSprop on LibTorch's fused kernels: one call updates all parameters of a
// group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/choices.h"
#include "shared/ops/named_tensor.h"

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
  // Decay of the normalisation layers' weights and biases; unset: the same as for all others.
  std::optional<double> norm_weight_decay = {};
  double beta1 = 0.9, beta2 = 0.999;  // Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019)
  double epsilon = 1e-8;              // Adam's and AdamW's
  // RMSprop (Tieleman & Hinton 2012): v = rho v + (1 - rho) g^2, w -= lr g / (sqrt(v) + epsilon),
  // Keras' numbers: its epsilon too is outside the root.
  double rho = 0.9, rmsprop_epsilon = 1e-7;
};

// Tensors on the device that control an update, one f32 each on the parameters' device; undefined:
// no effect.
struct UpdateGuard {
  at::Tensor divisor = {};  // divisor of the gradients, which change
  at::Tensor skip = {};     // 1: values and their state stay as they are; 0: update
};

// Returns the divisor that brings gradients of L2 norm `norm`, a scalar, down to `max_norm`
// (Pascanu et al. 2013; (norm + 1e-6) / max_norm as in torch.nn.utils.clip_grad_norm_), 1 where
// they are below.
at::Tensor clip_divisor(const at::Tensor& norm, double max_norm);

class Optimizer {
 public:
  // `parameters` require grad; any shape, f32 or f64. The update goes through memory in its order,
  // so a parameter, its gradient and its state must have the same layout: state takes the
  // parameter's strides here, the gradient's are checked at the first step.
  Optimizer(NamedTensors parameters, const OptimizerOptions& options);

  // Makes one update with the parameters' current gradients, which hold nothing of use afterwards.
  // Same update as torch.optim's SGD, Adam, AdamW and RMSprop (neither centred nor with momentum)
  // with the same numbers (tests/train/step/optimizer_test.cpp, tests/parity). No gradient is
  // recorded.
  void step(double learning_rate, const UpdateGuard& guard = {});

  // Returns "momentum_buffer.NAME" of SGD, "exp_avg.NAME" and "exp_avg_sq.NAME" of Adam and AdamW,
  // "square_avg.NAME" of RMSprop; nothing for SGD without momentum. No copies.
  NamedTensors state() const;

  // Restores what `state` returned and the number of updates done. Throws Error{kConfig} with
  // `source` as the subject when tensors are missing or differ in shape.
  void load_state(const NamedTensors& state, std::int64_t updates_done, const std::string& source);

 private:
  // Parameters with the same weight decay.
  struct Group {
    double weight_decay = 0;
    std::vector<std::string> names;
    // first: SGD with momentum, Adam; second, counts: Adam, RMSprop.
    std::vector<at::Tensor> values, first, second, update_counts;
  };
  void add(const NamedTensor& parameter, double weight_decay);
  void check_layout() const;

  OptimizerOptions options_;
  std::vector<Group> groups_;
  bool layout_checked_ = false;
};

}  // namespace retina
