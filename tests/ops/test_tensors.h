// Random tensors and numeric gradients for the tests of operations, loss and model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "shared/ops/matcher.h"
#include "train/step/detection_loss.h"

namespace retina {

// Values of RandomStream{seed, kTest}: equal in every run.
struct RandomTensor {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> shape = {};
  double low = 0;
  double high = 1;
};
at::Tensor random_tensor(const RandomTensor& wanted);  // f64

// [count, 4] f64 xyxy boxes of sides 1 to `side` with corners in 0 to `extent`.
struct RandomBoxes {
  std::uint64_t seed = 0;
  std::int64_t count = 0;
  double extent = 200;
  double side = 80;
};
at::Tensor random_boxes(const RandomBoxes& wanted);

// The deltas that kernels::encode_box gives, [M, 4]; boxes, anchors [M, 4] f32 or f64.
at::Tensor encode_boxes(const at::Tensor& boxes, const at::Tensor& anchors);

// The matches of one image with all these boxes, [A].
at::Tensor match_one(const at::Tensor& anchors, const at::Tensor& boxes,
                     const MatchOptions& options = {});

// The boxes of one slot of a batch.
struct BoxTargets {
  at::Tensor boxes;    // [G, 4] xyxy px
  at::Tensor labels;   // [G] i64
  bool counts = true;  // false for a pad slot
  // [P, 4]; undefined: none
  at::Tensor partial_boxes = {};
};
BatchTargets batch_of(const std::vector<BoxTargets>& targets, c10::Device device = c10::kCPU);

// d value / d input by central differences, f64. `value` must not keep its argument.
at::Tensor central_differences(const std::function<double(const at::Tensor&)>& value,
                               const at::Tensor& input, double step = 1e-6);

}  // namespace retina
