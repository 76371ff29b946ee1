#include "shared/model/body.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "shared/model/network_shape.h"

namespace retina {
namespace {

// Squeeze and excitation (Hu et al. 2018) as in MobileNetV3: multiplies each channel by a number in
// [0, 1] that two dense layers compute from the channels' means.
class SqueezeExcitation {
 public:
  SqueezeExcitation(const ModelScope& scope, int channels, int squeezed)
      : fc1_(scope / "fc1", {.in_channels = channels, .out_channels = squeezed}),
        fc2_(scope / "fc2", {.in_channels = squeezed, .out_channels = channels}) {}

  at::Tensor forward(const at::Tensor& input) const {
    const at::Tensor means = at::adaptive_avg_pool2d(input, {1, 1});  // [N, C, 1, 1]
    return input * at::hardsigmoid(fc2_.forward(fc1_.forward(means, {.relu = true})));
  }

 private:
  Conv fc1_, fc2_;  // 1x1
};

class InvertedResidual {
 public:
  InvertedResidual(const ModelScope& scope, const InvertedResidualShape& shape,
                   const ModelConfig& config)
      : shape_(shape) {
    const ModelScope block = scope / "block";
    std::size_t place = 0;
    const int wide = shape.expanded;
    if (shape.expands()) {
      expand_.emplace(block / place++, ConvShape{.in_channels = shape.in, .out_channels = wide},
                      config);
    }
    depthwise_.emplace(block / place++,
                       ConvShape{.in_channels = wide,
                                 .out_channels = wide,
                                 .kernel = shape.kernel,
                                 .stride = shape.stride,
                                 .groups = wide},
                       config);
    if (shape.excites) excitation_.emplace(block / place++, wide, shape.squeezed());
    project_.emplace(block / place, ConvShape{.in_channels = wide, .out_channels = shape.out},
                     config);
  }

  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const {
    const auto activated = [&](const ConvNorm& conv, const at::Tensor& x) {
      if (!shape_.hardswish) return conv.forward(x, mode, {.relu = true});
      return at::hardswish(conv.forward(x, mode));
    };
    at::Tensor output = expand_ ? activated(*expand_, input) : input;
    output = activated(*depthwise_, output);
    if (excitation_) output = excitation_->forward(output);
    return project_->forward(output, mode,
                             {.residual = shape_.adds_input() ? input : at::Tensor()});
  }

 private:
  InvertedResidualShape shape_;
  std::optional<ConvNorm> expand_, depthwise_;
  std::optional<SqueezeExcitation> excitation_;
  std::optional<ConvNorm> project_;
};

class MobileNetV3 : public Body {
 public:
  MobileNetV3(const ModelScope& scope, const ModelConfig& config)
      : stem_(
            scope / 0,
            {.in_channels = 3, .out_channels = kMobileNetV3StemChannels, .kernel = 3, .stride = 2},
            config) {
    for (const InvertedResidualShape& shape : kMobileNetV3Large) {
      blocks_.emplace_back(scope / (blocks_.size() + 1), shape, config);
    }
    last_.emplace(scope / (blocks_.size() + 1),
                  ConvShape{.in_channels = kMobileNetV3Large.back().out,
                            .out_channels = kMobileNetV3LastChannels},
                  config);
  }

  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override {
    at::Tensor output = at::hardswish(stem_.forward(images, mode));  // [N, 16, H/2, W/2]
    std::array<at::Tensor, 3> features;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      output = blocks_[block].forward(output, mode);
      if (block == kMobileNetV3C3) features[0] = output;
      if (block == kMobileNetV3C4) features[1] = output;
    }
    features[2] = at::hardswish(last_->forward(output, mode));
    return features;
  }

 private:
  ConvNorm stem_;
  std::vector<InvertedResidual> blocks_;
  std::optional<ConvNorm> last_;
};

}  // namespace

std::unique_ptr<Body> make_mobilenet(const ModelScope& scope, const ModelConfig& config) {
  return std::make_unique<MobileNetV3>(scope, config);
}

}  // namespace retina
