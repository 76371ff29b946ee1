#include "shared/model/body.h"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "shared/base/cat.h"
#include "shared/model/network_shape.h"

namespace retina {
namespace {

// A block of 1x1 + grouped 3x3 + 1x1 of one width, with a projection if shapes change.
class RegNetBlock {
 public:
  struct Shape {
    int in_channels = 0;
    int out_channels = 0;
    int stride = 1;
    int groups = 1;
  };
  RegNetBlock(const ModelScope& scope, const Shape& shape, const ModelConfig& config) {
    const int in = shape.in_channels, out = shape.out_channels, stride = shape.stride;
    if (stride != 1 || in != out) {
      project_.emplace(scope / "proj",
                       ConvShape{.in_channels = in, .out_channels = out, .stride = stride}, config);
    }
    const ModelScope body = scope / "f";
    convs_.emplace_back(body / "a", ConvShape{.in_channels = in, .out_channels = out}, config);
    convs_.emplace_back(body / "b",
                        ConvShape{.in_channels = out,
                                  .out_channels = out,
                                  .kernel = 3,
                                  .stride = stride,
                                  .groups = shape.groups},
                        config);
    convs_.emplace_back(body / "c", ConvShape{.in_channels = out, .out_channels = out}, config);
  }

  at::Tensor forward(const at::Tensor& input, const NormMode& mode) const {
    const at::Tensor first = convs_[0].forward(input, mode, {.relu = true});
    const at::Tensor second = convs_[1].forward(first, mode, {.relu = true});
    const at::Tensor residual = project_ ? project_->forward(input, mode) : input;
    return convs_[2].forward(second, mode, {.residual = residual, .relu = true});
  }

 private:
  std::optional<ConvNorm> project_;  // of the shortcut, if shapes change
  std::vector<ConvNorm> convs_;
};

class RegNet : public Body {
 public:
  RegNet(const ModelScope& scope, const ModelConfig& config)
      : stem_(scope / "stem",
              {.in_channels = 3, .out_channels = kRegNetStemChannels, .kernel = 3, .stride = 2},
              config) {
    const RegNetShape shape = regnet_shape(config.backbone);
    int channels = kRegNetStemChannels;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::string name = cat("block", stage + 1);
      for (int block = 0; block < shape.blocks[stage]; ++block) {
        stages_[stage].emplace_back(scope / "trunk_output" / name / cat(name, "-", block),
                                    RegNetBlock::Shape{.in_channels = channels,
                                                       .out_channels = shape.widths[stage],
                                                       .stride = block == 0 ? 2 : 1,
                                                       .groups = shape.groups(stage)},
                                    config);
        channels = shape.widths[stage];
      }
    }
  }

  std::array<at::Tensor, 3> forward(const at::Tensor& images, const NormMode& mode) const override {
    at::Tensor output = stem_.forward(images, mode, {.relu = true});  // [N, 32, H/2, W/2]
    std::array<at::Tensor, 4> stages;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (const RegNetBlock& block : stages_[stage]) output = block.forward(output, mode);
      stages[stage] = output;
    }
    return {stages[1], stages[2], stages[3]};
  }

 private:
  ConvNorm stem_;
  std::array<std::vector<RegNetBlock>, 4> stages_;
};

}  // namespace

std::unique_ptr<Body> make_regnet(const ModelScope& scope, const ModelConfig& config) {
  return std::make_unique<RegNet>(scope, config);
}

}  // namespace retina
