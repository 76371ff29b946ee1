// Group normalisation (Wu & He 2018) and the ReLU behind it in one operation: what the heads do
// after each convolution, in the type and the memory format that the convolution gives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retina {

// y = max(0, (x - mean) / sqrt(var + eps) weight + bias), mean and biased variance over each
// image's group: its pixels and C / group_count neighbouring channels.
//   x       [N, C, H, W] f32, f64, bf16 or f16, any strides; channels-last is read where it lies,
//   all
//           else is copied into it first
//   weight  [C] f32, of f64 x f64; bias likewise; on x's device
//   eps     at least 0
// returns x's shape, type and suggested memory format. Statistics and arithmetic are in f32 (f64 of
// f64), sums in f64, y is rounded once. NaN stays NaN. Without values (N or H W is 0) y has none
// and the gradients of weight and bias are 0. Autocast has no rule for it: 16-bit x stays so. The
// gradient (dx in x's type and format, weight's and bias's in theirs) keeps x and two numbers a
// group, recomputes from x what the ReLU let pass, and cannot be differentiated itself. The bits of
// an image depend neither on its batch nor on timing or the number of threads; a GPU differs from a
// CPU by the order of the sums (tests/gpu). Equals at::group_norm and its gradients (tests/ops).
at::Tensor group_norm_relu(const at::Tensor& x, std::int64_t group_count, const at::Tensor& weight,
                           const at::Tensor& bias, double eps);

}  // namespace retina
