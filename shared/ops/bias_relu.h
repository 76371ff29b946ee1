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

struct BiasReluGradients {
  at::Tensor input;  // [N, C, H, W]: of x, and of the residual
  at::Tensor bias;   // [C] f32, of f64 f64; undefined where nobody wants it
};

// What a ReLU that gave `y` lets pass of `dy`, and its sums over images and pixels.
//   y, dy [N, C, H, W] f32, f64 or bf16 of one device, any strides
// dy' is 0 where y <= 0, else dy; NaN in y lets it pass, as in LibTorch. A GPU makes dy' and the
// sums in one pass where there are sums to make: of up to about 128 values in f32, of these in f64,
// in a fixed order. The bits do not depend on timing; the sums differ from a CPU's by their order
// (tests/gpu). On a GPU the sums have no gradient themselves.
BiasReluGradients bias_relu_backward(const at::Tensor& y, const at::Tensor& dy, bool wants_bias);

}  // namespace retina
