// Batch norm over the images of all ranks, computed as one rank with all of them would do it: with
// few images a rank, the statistics of one rank's images alone are too noisy to learn from (Peng et
// al. 2018, "MegDet").
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

namespace retina {

// The seam through which a layer adds numbers over the ranks of a run in the middle of forward and
// backward. The model has no communicator: the trainer gives it one of these.
class RankSum {
 public:
  RankSum() = default;
  RankSum(const RankSum&) = delete;
  RankSum& operator=(const RankSum&) = delete;
  virtual ~RankSum() = default;

  // Sums over the ranks: values[i] = sum over ranks of values[i], the same bits on every rank.
  // Waits for the other ranks: all call this in the same order with the same count. `what` names
  // the sum in messages about lost ranks, e.g. "layer1.0.bn1 forward". May be called on autograd's
  // threads.
  virtual void sum(std::span<double> values, const std::string& what) = 0;
};

struct SyncNorm {
  RankSum* ranks = nullptr;
  std::string name = {};  // the layer's, for RankSum's messages
  double momentum = 0.1;  // momentum of the running statistics
  double eps = 1e-5;
};

// Computes y = weight (x - mean) / sqrt(var + eps) + bias, mean and (biased) var over the images
// and pixels of all ranks; Ioffe & Szegedy 2015, algorithm 1. `input` [N, C, H, W] f32, f64, bf16
// or f16, any layout; N, H and W may differ between ranks, N may be 0. `weight`, `bias`,
// `running_mean`, `running_var` [C] f32 (f64 with f64), the same on all ranks. Returns `input`'s
// shape and type. The running statistics move as at::batch_norm moves them, the variance unbiased
// by the count over all ranks: they stay the same bits on all ranks. Gradient: of `input` in full,
// through every rank's statistics; of `weight` and `bias` this rank's part, to be summed over ranks
// with the other gradients. Not differentiable twice. Collective: one sum in forward, one in
// backward if `input` has a gradient. Sums travel as f64. Verification:
// tests/model/sync_norm_test.cpp, tests/train/reduce/reduce_equality_check.cpp.
at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, const at::Tensor& running_mean,
                           const at::Tensor& running_var, const SyncNorm& options);

}  // namespace retina
