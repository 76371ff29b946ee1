// Batch normalisation (Ioffe & Szegedy 2015) by a batch's own statistics, and what follows it in a
// residual network (He et al. 2016), a residual and a ReLU: what a training step does after each
// convolution of the backbone, on a GPU in one operation.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

struct BatchNorm {
  at::Tensor weight, bias;               // [C] f32, of f64 x f64; on x's device
  at::Tensor running_mean, running_var;  // likewise; moved
  double momentum = 0.1;                 // momentum of the running statistics, from 0 to 1
  double eps = 1e-5;                     // at least 0
  at::Tensor residual = {};              // x's shape and device, or undefined
  bool relu = false;                     // true: a ReLU follows
};

// y = max(0, (x - mean) / sqrt(var + eps) weight + bias + residual), mean and biased variance of a
// channel over all images and pixels. running += momentum (found - running), with the variance
// unbiased. Without values (N or H W is 0) y has none, nothing moves and the gradients of weight
// and bias are 0. NaN stays NaN.
//   x [N, C, H, W] f32, f64, bf16 or f16, any strides
// returns x's shape, type and suggested memory format.
// On a CPU: at::batch_norm, add and relu. On a GPU equal to them but for rounding (tests/gpu): x
// is read where it lies if that is channels-last, else copied into it first; statistics and
// arithmetic are in f32 (f64 of f64), sums in f64, of about 128 values in f32 before; y is rounded
// once; of a single value, 0 is taken for the unbiased variance. Autocast has no rule for it:
// 16-bit x stays so. The gradient (each in the type of what it is of) keeps x, two numbers a
// channel and, with a residual and a ReLU, y: there y says what the ReLU let pass, else that is
// recomputed from x. It cannot be differentiated itself. The bits do not depend on timing.
at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNorm& what);

}  // namespace retina
