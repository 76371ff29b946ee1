// Dynamic loss scaling for --precision fp16 (Micikevicius et al. 2018, "Mixed precision training",
// section 3.2): half has no number between 0 and 6e-8, and many gradients are smaller. Backward
// computes them `scale` times as large, and they are divided by it before anything else looks at
// them. By the rule and the numbers of torch.amp.GradScaler.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "shared/ops/named_tensor.h"

namespace retina {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // after `growth_interval` updates in a row
  double backoff_factor = 0.5;  // after a gradient that is not finite
  std::int64_t growth_interval = 2000;
};

// Below this scale a gradient that is not finite has another cause than the scale.
inline constexpr double kLeastLossScale = 1;

class GradScaler {
 public:
  GradScaler(const GradScalerOptions& options, c10::Device device);

  // Returns the scale, a scalar f32, always the same tensor: only `update` and `load_state` change
  // it. With the default options it is a power of 2, which rounds nothing where f32 has no
  // subnormals.
  const at::Tensor& scale() const { return scale_; }

  // Adapts the scale after a step. `found_inf` is a scalar f32 on the device: 1 where its gradient,
  // summed over ranks, is not finite, which makes it a step without an update; else 0. A GPU does
  // this without waiting.
  void update(const at::Tensor& found_inf);

  // Returns the steps without an update so far; waits for the device.
  std::int64_t skipped_count() const;

  // Returns "grad_scaler.scale" f32, "grad_scaler.growth_tracker" and "grad_scaler.skipped" i64,
  // scalars: copies on the device. Part of the checkpoint format; never rename.
  NamedTensors state() const;
  // Restores what `state` returned. Throws Error{kConfig} with `source` as the subject when one is
  // missing.
  void load_state(const NamedTensors& state, const std::string& source);

 private:
  GradScalerOptions options_;
  at::Tensor scale_;           // f32
  at::Tensor growth_tracker_;  // i32: updates in a row
  at::Tensor skipped_;         // i64
};

}  // namespace retina
