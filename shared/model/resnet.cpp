#include "shared/model/body.h"

#include <ATen/ops/max_pool2d.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "shared/base/cat.h"
#include "shared/model/network_shape.h"

namespace retina {
namespace {

constexpr int kStemChannels = 64;

ConvShape bias_free(int in_channels, int out_channels, int kernel, int stride) {
  return {.in_channels = in_channels,
          .out_channels = out_channels,
          .kernel = kernel,
          .stride = stride,
          .bias = false};
}

// A residual block: 3x3 + 3x3, or 1x1 + 3x3 + 1x1, with a projection if shapes change.
class ResidualBlock {
 public:
  struct Shape {
    int in_channels = 0;
    int mid_channels = 0;
    int out_channels = 0;
    int stride = 1;
    int groups = 1;  // of the 3x3 convolution of a bottleneck
    bool bottleneck = false;
  };
  ResidualBlock(const ModelScope& scope, const Shape& shape, const ModelConfig& config) {
    const int in = shape.in_channels, mid = shape.mid_channels, stride = shape.stride;
    const int out = shape.out_channels;
    std::vector<ConvShape> convs = {bias_free(in, mid, 3, stride), bias_free(mid, out, 3, 1)};
    if (shape.bottleneck) {
      convs = {bias_free(in, mid, 1, 1), bias_free(mid, mid, 3, stride), bias_free(mid, out, 1, 1)};
      convs[1].groups = shape.groups;
    }
    for (const ConvShape& conv : convs) {
      const std::size_t number = convs_.size() + 1;
      convs_.emplace_back(scope / cat("conv", number), conv);
      norms_.emplace_back(scope / cat("bn", number), conv.out_channels, config);
    }
    if (stride != 1 || in != out) {
      project_.emplace(scope / "downsample" / 0, bias_free(in, out, 1, stride));
      project_norm_.emplace(scope / "downsample" / 1, out, config);
    }
  }

  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const {
    at::Tensor output = input;
    const std::size_t last = convs_.size() - 1;
    for (std::size_t i = 0; i < last; ++i) {
      output = norms_[i].after(convs_[i], output, mode, {.relu = true});
    }
    const at::Tensor residual = project_ ? project_norm_->after(*project_, input, mode) : input;
    return norms_[last].after(convs_[last], output, mode, {.residual = residual, .relu = true});
  }

 private:
  std::vector<Conv> convs_;
  std::vector<Norm2d> norms_;
  std::optional<Conv> project_;  // of the shortcut, if shapes change
  std::optional<Norm2d> project_norm_;
};

class ResNet : public Body {
 public:
  ResNet(const ModelScope& scope, const ModelConfig& config)
      : conv1_(scope / "conv1", bias_free(3, kStemChannels, 7, 2)),
        bn1_(scope / "bn1", kStemChannels, config) {
    const ResNetShape shape = resnet_shape(config.backbone);
    int channels = kStemChannels;
    for (std::size_t stage = 0; stage < layers_.size(); ++stage) {
      const ModelScope layer = scope / cat("layer", stage + 1);
      for (int block = 0; block < shape.blocks[stage]; ++block) {
        layers_[stage].emplace_back(layer / static_cast<std::size_t>(block),
                                    ResidualBlock::Shape{.in_channels = channels,
                                                         .mid_channels = shape.mid_channels(stage),
                                                         .out_channels = shape.out_channels(stage),
                                                         .stride = stage > 0 && block == 0 ? 2 : 1,
                                                         .groups = shape.groups,
                                                         .bottleneck = shape.bottleneck},
                                    config);
        channels = shape.out_channels(stage);
      }
    }
  }

  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override {
    at::Tensor output = bn1_.after(conv1_, images, mode);  // [N, 64, H/2, W/2]
    // ReLU after the pool: the same bits, gradients too, from a quarter of the values.
    output = at::max_pool2d(output, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1).relu_();
    std::array<at::Tensor, 4> stages;
    for (std::size_t stage = 0; stage < layers_.size(); ++stage) {
      for (const ResidualBlock& block : layers_[stage]) output = block.forward(output, mode);
      stages[stage] = output;
    }
    return {stages[1], stages[2], stages[3]};
  }

 private:
  Conv conv1_;
  Norm2d bn1_;
  std::array<std::vector<ResidualBlock>, 4> layers_;
};

}  // namespace

std::unique_ptr<Body> make_resnet(const ModelScope& scope, const ModelConfig& config) {
  return std::make_unique<ResNet>(scope, config);
}

}  // namespace retina
