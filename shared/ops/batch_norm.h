// Batch normalisation (Ioffe & Szegedy 2015) by a batch's own statistics, and what follows it in a
// residual network (He et al. 2016), a residual and a ReLU, in one operation: what a training step
// on a GPU does after each convolution of the backbone.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

struct BatchNorm {
  at::Tensor weight, bias;               // [C] f32, of f64 x f64; on x's device
  at::Tensor running_mean, running_var;  // likewise; moved
  double momentum = 0.1;                 // of the running statistics, from 0 to 1
  double eps = 1e-5;                     // at least 0
  at::Tensor residual = {};              // x's shape, type and device, or undefined
  bool relu = false;                     // whether there is a ReLU at all
};

// y = max(0, (x - mean) / sqrt(var + eps) weight + bias + residual), mean and biased variance of a
// channel over all images and pixels. running += momentum (found - running), with the variance
// unbiased; of a single value there is no unbiased one, and 0 is taken.
//   x [N, C, H, W] f32, f64, bf16 or f16, any strides; channels-last is read where it lies, all
//   else is
//     copied into it first
// returns x's shape, type and suggested memory format. Statistics and arithmetic are in f32 (f64 of
// f64), sums in f64, on a GPU of about 128 values in f32 before; y is rounded once. NaN stays NaN.
// Without values (N or H W is 0) y has none, nothing moves and the gradients of weight and bias are
// 0. Autocast has no rule for it: 16-bit x stays so. The gradient (each in the type of what it is
// of) keeps x, two numbers a channel and, with a residual and a ReLU, y: there y says what the ReLU
// let pass, else that is recomputed from x. It cannot be differentiated itself. The bits depend
// neither on timing nor on the number of threads; a GPU differs from a CPU by the order of the sums
// (tests/gpu). Equals at::batch_norm, add and relu and their gradients (tests/ops).
at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNorm& what);

}  // namespace retina
