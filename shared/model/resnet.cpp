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

constexpr int kResNetStemChannels = 64;

ConvShape conv_shape(int in_channels, int out_channels, int kernel, int stride, int groups = 1) {
  return {.in_channels = in_channels,
          .out_channels = out_channels,
          .kernel = kernel,
          .stride = stride,
          .groups = groups};
}

// A residual block, with a projection of the shortcut if shapes change.
struct ResidualBlock {
  std::vector<ConvNorm> convs{};
  std::optional<ConvNorm> project{};

  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const {
    at::Tensor output = input;
    for (std::size_t i = 0; i + 1 < convs.size(); ++i) {
      output = convs[i].forward(output, mode, {.relu = true});
    }
    const at::Tensor residual = project ? project->forward(input, mode) : input;
    return convs.back().forward(output, mode, {.residual = residual, .relu = true});
  }
};

// A stem and four stages of residual blocks.
class ResidualNet : public Body {
 public:
  explicit ResidualNet(ConvNorm stem) : stem_(std::move(stem)) {}

  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override {
    at::Tensor output = stem(images, mode);
    std::array<at::Tensor, 4> features;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (const ResidualBlock& block : stages_[stage]) output = block.forward(output, mode);
      features[stage] = output;
    }
    return {features[1], features[2], features[3]};
  }

 protected:
  virtual at::Tensor stem(const at::Tensor& images, const NormMode& mode) const {
    return stem_.forward(images, mode, {.relu = true});  // [N, C, H/2, W/2]
  }

  ConvNorm stem_;
  std::array<std::vector<ResidualBlock>, 4> stages_;
};

class ResNet : public ResidualNet {
 public:
  ResNet(const ModelScope& scope, const ModelConfig& config)
      : ResidualNet(
            {scope / "conv1", scope / "bn1", conv_shape(3, kResNetStemChannels, 7, 2), config}) {
    const ResNetShape shape = resnet_shape(config.backbone);
    int in = kResNetStemChannels;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const int mid = shape.mid_channels(stage), out = shape.out_channels(stage);
      for (int number = 0; number < shape.blocks[stage]; ++number) {
        const ModelScope here = scope / cat("layer", stage + 1) / static_cast<std::size_t>(number);
        const int stride = stage > 0 && number == 0 ? 2 : 1;
        std::vector<ConvShape> convs = {conv_shape(in, mid, 3, stride), conv_shape(mid, out, 3, 1)};
        if (shape.bottleneck) {
          convs = {conv_shape(in, mid, 1, 1), conv_shape(mid, mid, 3, stride, shape.groups),
                   conv_shape(mid, out, 1, 1)};
        }
        ResidualBlock& block = stages_[stage].emplace_back();
        for (const ConvShape& one : convs) {
          const std::size_t place = block.convs.size() + 1;
          block.convs.emplace_back(here / cat("conv", place), here / cat("bn", place), one, config);
        }
        if (stride != 1 || in != out) {
          block.project.emplace(here / "downsample", conv_shape(in, out, 1, stride), config);
        }
        in = out;
      }
    }
  }

 protected:
  // ReLU after the pool: the same bits, gradients too, from a quarter of the values.
  at::Tensor stem(const at::Tensor& images, const NormMode& mode) const override {
    const at::Tensor output = stem_.forward(images, mode);  // [N, 64, H/2, W/2]
    return at::max_pool2d(output, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1).relu_();
  }
};

// Blocks of 1x1 + grouped 3x3 + 1x1 of one width.
class RegNet : public ResidualNet {
 public:
  RegNet(const ModelScope& scope, const ModelConfig& config)
      : ResidualNet({scope / "stem", conv_shape(3, kRegNetStemChannels, 3, 2), config}) {
    const RegNetShape shape = regnet_shape(config.backbone);
    int in = kRegNetStemChannels;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::string name = cat("block", stage + 1);
      const int out = shape.widths[stage];
      for (int number = 0; number < shape.blocks[stage]; ++number) {
        const ModelScope here = scope / "trunk_output" / name / cat(name, "-", number);
        const int stride = number == 0 ? 2 : 1;
        ResidualBlock& block = stages_[stage].emplace_back();
        if (stride != 1 || in != out) {
          block.project.emplace(here / "proj", conv_shape(in, out, 1, stride), config);
        }
        block.convs.emplace_back(here / "f" / "a", conv_shape(in, out, 1, 1), config);
        block.convs.emplace_back(here / "f" / "b",
                                 conv_shape(out, out, 3, stride, shape.groups(stage)), config);
        block.convs.emplace_back(here / "f" / "c", conv_shape(out, out, 1, 1), config);
        in = out;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Body> make_resnet(const ModelScope& scope, const ModelConfig& config) {
  return std::make_unique<ResNet>(scope, config);
}

std::unique_ptr<Body> make_regnet(const ModelScope& scope, const ModelConfig& config) {
  return std::make_unique<RegNet>(scope, config);
}

}  // namespace retina
