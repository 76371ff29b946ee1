// What a loss over the outputs of a head gives: its sums and, already made, its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace retina {

struct LossSums {
  // [N], of each image; f32, or f64 for outputs in f64.
  at::Tensor sums;
  // One for each level's outputs, of their shape and type: of the sum over images of weights[n]
  // times sums[n].
  std::vector<at::Tensor> gradients;
};

}  // namespace retina
