// Batch norm of the backbone, trained or frozen, under the same names (weight, bias, running_mean,
// running_var and, when trained, num_batches_tracked), and the convolution it follows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "shared/model/config.h"
#include "shared/model/layers.h"
#include "shared/model/sync_norm.h"

namespace retina {

// Treatment of batch norm that is not frozen in a pass through the network.
struct NormMode {
  // Normalises with the batch's own statistics, and moves the running ones.
  bool training = true;
  // Batch statistics are those of the images of all ranks (sync_norm.h); null: of this rank's own.
  RankSum* ranks = nullptr;
};

// Ioffe & Szegedy 2015. Frozen: all four tensors are buffers, statistics never move. Trained:
// weight and bias are parameters, statistics move in training mode with momentum 0.1.
class Norm2d {
 public:
  Norm2d(const ModelScope& scope, std::int64_t channel_count, const ModelConfig& config);

  // norm(conv(input)), and what follows. `input` [N, C, H, W]. A norm whose statistics do not move,
  // frozen or outside training, is folded into the weights of a bias-free convolution (scale =
  // weight / sqrt(var + eps)), which saves two passes over the activations; the gradient of conv's
  // weight is that of the unfolded form.
  at::Tensor after(const Conv& conv, const at::Tensor& input, const NormMode& mode,
                   const Epilogue& then = {}) const;

 private:
  double eps_;
  bool frozen_;
  std::string name_;  // for messages
  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
};

// A bias-free convolution and its norm.
class ConvNorm {
 public:
  // Makes one of `shape` without a bias, whatever it says.
  ConvNorm(const ModelScope& conv, const ModelScope& norm, const ConvShape& shape,
           const ModelConfig& config);
  // Makes one under torchvision's names of Conv2dNormActivation: 0, 1.
  ConvNorm(const ModelScope& scope, const ConvShape& shape, const ModelConfig& config)
      : ConvNorm(scope / 0, scope / 1, shape, config) {}
  at::Tensor forward(const at::Tensor& input, const NormMode& mode,
                     const Epilogue& then = {}) const {
    return norm_.after(conv_, input, mode, then);
  }

 private:
  Conv conv_;
  Norm2d norm_;
};

}  // namespace retina
