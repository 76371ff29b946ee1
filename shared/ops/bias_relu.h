// The steps after a convolution: a bias, the residual of He et al. 2016, a ReLU. On a GPU in one
// pass over its output, which each of them alone would read and write all of.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

struct BiasRelu {
  at::Tensor bias = {};      // [C], or undefined
  at::Tensor residual = {};  // x's shape, or undefined
  bool relu = true;          // true: a ReLU follows
};

// y = max(0, x + bias + residual).
//   x [N, C, H, W] f32, f64, bf16 or f16, whose memory may become y's
//   what.bias f32, of f64 f64; what.residual: any strides
// returns y, dense in x's suggested memory format; summed in f32 (of f64 in f64) from the left and
// rounded once. NaN stays NaN: a diverged run does not look healthy. On a CPU by LibTorch's add and
// relu, whose bits a GPU gives (tests/gpu), and nothing waits for it. The bias' gradient is the f32
// sum of y's where y > 0: a GPU makes both in one pass, sums of up to about 128 values in f32, of
// these in f64, in a fixed order, and they have no gradient themselves.
at::Tensor bias_relu(const at::Tensor& x, const BiasRelu& what);

}  // namespace retina
