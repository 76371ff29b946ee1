// SGD, Adam and AdamW on LibTorch's fused kernels: one call updates all parameters of a group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"

namespace retina {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;       // SGD: v = momentum v + g, w -= lr v (no dampening, no Nesterov)
  double weight_decay = 1e-4;  // SGD and Adam: added to the gradient; AdamW: decoupled
  // Decay of the normalisation layers' weights and biases; unset: as all others.
  std::optional<double> norm_weight_decay = {};
  double beta1 = 0.9, beta2 = 0.999;  // Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019)
  double epsilon = 1e-8;
};

// A parameter to train, with its full name. `value` requires grad; any shape, f32 or f64.
struct TrainableParameter {
  std::string name = {};
  at::Tensor value = {};
};

class Optimizer {
 public:
  // The fused kernels ignore strides, so a parameter, its gradient and its state must lie alike in
  // memory: state takes the parameter's strides here, the gradient's are checked at the first step.
  Optimizer(std::vector<TrainableParameter> parameters, const OptimizerOptions& options);

  // One update with the parameters' present gradients. Same update as torch.optim's SGD, Adam and
  // AdamW with the same numbers (tests/train/optimizer_test.cpp). No gradient is recorded.
  void step(double learning_rate);

  // "momentum_buffer.NAME", or "exp_avg.NAME" and "exp_avg_sq.NAME"; nothing for SGD without
  // momentum. No copies.
  NamedTensors state() const;

  // Restores what `state` returned and the number of updates done. Throws Error{kConfig} with
  // `source` as the subject when tensors are missing or differ in shape.
  void load_state(const NamedTensors& state, std::int64_t updates_done, const std::string& source);

 private:
  // Parameters with one weight decay.
  struct Group {
    double weight_decay = 0;
    std::vector<std::string> names;
    // first: SGD with momentum, Adam; second, counts: Adam only.
    std::vector<at::Tensor> values, first, second, update_counts;
  };
  void add(const TrainableParameter& parameter, double weight_decay);
  void check_layout() const;

  OptimizerOptions options_;
  std::vector<Group> groups_;
  bool layout_checked_ = false;
};

}  // namespace retina
