#include "shared/model/heads.h"

#include <ATen/ops/cat.h>

#include <cstddef>

#include "shared/model/fpn.h"
#include "shared/model/layers.h"

namespace retina {

HeadImpl::HeadImpl(int values_per_anchor, const std::string& output_name, const ModelConfig& config)
    : values_per_anchor_(values_per_anchor) {
  const bool normalised = config.head_norm == "group";
  Numbered tower;
  for (int depth = 0; depth < kHeadDepth; ++depth) {
    Numbered step;
    convs_.push_back(make_conv({.in_channels = kPyramidChannels,
                                .out_channels = kPyramidChannels,
                                .kernel = 3,
                                .stride = 1,
                                .bias = !normalised}));
    step->add(convs_.back().ptr());
    if (normalised) {
      norms_.push_back(torch::nn::GroupNorm(kHeadGroups, kPyramidChannels));
      step->add(norms_.back().ptr());
    }
    tower->add(step.ptr());
  }
  register_module("conv", tower);
  output_ =
      register_module(output_name, make_conv({.in_channels = kPyramidChannels,
                                              .out_channels = kAnchorsPerCell * values_per_anchor,
                                              .kernel = 3,
                                              .stride = 1,
                                              .bias = true}));
}

at::Tensor HeadImpl::forward(const std::array<at::Tensor, kLevelCount>& pyramid) {
  std::vector<at::Tensor> levels(pyramid.begin(), pyramid.end());
  // Layer by layer, not level by level: backward, which goes the other way, then has the gradients
  // of each layer's weights as soon as it has passed the layer, and other ranks get them meanwhile.
  for (std::size_t depth = 0; depth < convs_.size(); ++depth) {
    for (at::Tensor& level : levels) {
      level = convs_[depth]->forward(level);
      if (!norms_.empty()) level = norms_[depth]->forward(level);
      level.relu_();
    }
  }
  for (at::Tensor& level : levels) {
    // [N, 9 * values, h, w] -> [N, h * w * 9, values]: anchors of a cell stay neighbours.
    // All sizes are given: none can be inferred in a pass without images.
    const at::Tensor output = output_->forward(level);
    const std::int64_t anchors =
        output.size(1) / values_per_anchor_ * output.size(2) * output.size(3);
    level = output.permute({0, 2, 3, 1}).reshape({output.size(0), anchors, values_per_anchor_});
  }
  return at::cat(levels, 1);
}

}  // namespace retina
