// Group normalisation (Wu & He 2018) and the ReLU behind it: what the heads do after each
// convolution, on a GPU in one operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retina {

// y = max(0, (x - mean) / sqrt(var + eps) weight + bias), mean and biased variance over each
// image's group: its pixels and C / group_count neighbouring channels.
//   x       [N, C, H, W] f32, f64, bf16 or f16, any strides
//   weight  [C] f32, of f64 x f64; bias likewise; on x's device
//   eps     at least 0
// returns x's shape, type and suggested memory format. Without values (N or H W is 0) y has none
// and the gradients of weight and bias are 0. NaN stays NaN.
// On a CPU: at::group_norm and relu. On a GPU equal to them but for rounding (tests/gpu): x is read
// where it lies if that is channels-last, else copied into it first; statistics and arithmetic are
// in f32 (f64 of f64), sums in f64; y is rounded once. Autocast has no rule for it: 16-bit x stays
// so, where ATen's would be f32 and row-major. The gradient (dx in x's type and format, weight's
// and bias's in theirs) keeps x and two numbers a group, recomputes from x what the ReLU let pass,
// and cannot be differentiated itself. The bits of an image depend neither on its batch nor on
// timing.
at::Tensor group_norm_relu(const at::Tensor& x, std::int64_t group_count, const at::Tensor& weight,
                           const at::Tensor& bias, double eps);

}  // namespace retina
