// The ground truth of a batch as tensors, where the network computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "shared/data/batch.h"

namespace retina {

struct BatchTargets {
  at::Tensor boxes;    // [G, 4] f32 xyxy px of the resized images, not degenerate, image by image
  at::Tensor labels;   // [G] i64 dense
  at::Tensor offsets;  // [N + 1] i64: image n has boxes offsets[n] to offsets[n + 1] - 1
  at::Tensor counts;   // [N] i64: 1, or 0 for a pad slot: no loss, no gradient
};

// In one copy; a GPU makes it while the caller goes on.
BatchTargets batch_targets(const Batch& batch, c10::Device device);

}  // namespace retina
