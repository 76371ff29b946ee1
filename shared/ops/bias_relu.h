// What follows a convolution, in one pass over its output: a bias, the residual of He et al. 2016,
// a ReLU. On a GPU each of them alone would read and write all of it.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

struct BiasRelu {
  at::Tensor bias = {};      // [C], or undefined
  at::Tensor residual = {};  // x's shape and type, or undefined
  bool relu = true;          // whether there is a ReLU at all
};

// y = max(0, x + bias + residual).
//   x [N, C, H, W] f32, f64, bf16 or f16. Dense in row-major or channels-last order, as a
//   convolution's
//     output is, it gives y its memory; else a dense copy does.
//   what.bias f32, of f64 f64; what.residual: any strides
// returns y; summed in f32 (of f64 in f64) from the left and rounded once. NaN stays NaN: a
// diverged run does not look healthy. Deterministic; a GPU gives the bits of a CPU (tests/gpu),
// and nothing waits for it. The bias' gradient is the f32 sum of y's where y > 0. Equals LibTorch's
// add and relu (tests/ops).
at::Tensor bias_relu(const at::Tensor& x, const BiasRelu& what);

}  // namespace retina
