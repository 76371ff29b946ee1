// Batch norm of the backbone, trained or frozen, under the same names (weight, bias, running_mean,
// running_var and, when trained, num_batches_tracked), and the convolution it follows.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <string>

#include "shared/model/config.h"
#include "shared/model/rank_sum.h"

namespace retina {

// Ioffe & Szegedy 2015. Frozen: all four tensors are buffers, statistics never move. Trained:
// weight and bias are parameters, statistics move in training mode with momentum 0.1.
class Norm2dImpl : public torch::nn::Module {
 public:
  Norm2dImpl(std::int64_t channel_count, const ModelConfig& config);

  // norm(conv(input)). `input` [N, C, H, W]. A frozen norm is folded into the weights of a
  // bias-free convolution (scale = weight / sqrt(var + eps)), which saves two passes over the
  // activations; the gradient of conv's weight is that of the unfolded form.
  at::Tensor after(const torch::nn::Conv2d& conv, const at::Tensor& input);

  // From now on, in training, statistics are those of the images of all ranks (sync_norm.h). `name`
  // is for messages; `ranks` null: of this rank's own images. A frozen norm has none to share.
  void share_statistics(RankSum* ranks, const std::string& name);

  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  double eps_;
  bool frozen_;
  RankSum* ranks_ = nullptr;
  std::string name_ = {};
};
TORCH_MODULE(Norm2d);

}  // namespace retina
