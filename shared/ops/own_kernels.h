// The CUDA kernels of this folder, and what does their work on a GPU where they are wrong.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "shared/comm/communicator.h"

namespace retina {

enum class OwnKernel {
  kAssigners,  // matcher.h, atss.h
  kBatchNorm,
  kBiasRelu,
  kDropout,
  kGroupNorm,
  kLosses,
  kNms,
  kPrepareImages,
};
constexpr int kOwnKernelCount = 8;

// Returns true if operations on `tensor` must do without these kernels.
bool is_replaced(OwnKernel kernels, const at::Tensor& tensor);

// Returns true if LibTorch does the work of these kernels, norms or bias and ReLU, on `tensor`: if
// is_replaced(), on a CPU, and where it has no values.
bool is_left_to_libtorch(OwnKernel kernels, const at::Tensor& tensor);

// On a GPU: compares the kernels, forward and backward, on random tensors of `type` (kFloat,
// kBFloat16 or kHalf), with what replaces them from here on, in this process, if they differ on any
// rank: LibTorch's operations for the norms and for bias and ReLU; for what LibTorch has not,
// the CPU's implementation, to which tensors travel and back. A log line of rank 0, or a warning of
// each rank that found some wrong. What fails in LibTorch is not compared. No random state moves.
// Collective.
void replace_wrong_kernels(c10::Device device, at::ScalarType type, Communicator& ranks);

}  // namespace retina
