#include "shared/model/heads.h"

#include <ATen/ops/group_norm.h>

#include <cstddef>

#include "shared/model/network_shape.h"
#include "shared/ops/group_norm.h"

namespace retina {
namespace {

constexpr double kGroupNormEps = 1e-5;  // of the variance (Wu & He 2018)

}  // namespace

at::Tensor rows_by_class(const at::Tensor& layer, std::int64_t anchors_per_cell) {
  auto shape = layer.sizes().vec();
  shape[0] = anchors_per_cell;
  shape.insert(shape.begin() + 1, layer.size(0) / anchors_per_cell);
  return layer.contiguous().view(shape);
}

Head::Head(const ModelScope& scope, int values_per_anchor, const std::string& output_name,
           const ModelConfig& config)
    : values_per_anchor_(values_per_anchor) {
  const bool normalised = config.head_norm == HeadNorm::kGroup;
  const int width = config.fpn_channels;
  for (std::size_t depth = 0; depth < static_cast<std::size_t>(config.head_convs); ++depth) {
    const ModelScope step = scope / "conv" / depth;
    convs_.push_back({step / 0,
                      {.in_channels = width,
                       .out_channels = width,
                       .kernel = 3,
                       .stride = 1,
                       .bias = !normalised}});
    if (!normalised) continue;
    norms_.push_back({.weight = (step / 1).parameter("weight", {width}),
                      .bias = (step / 1).parameter("bias", {width})});
  }
  output_.emplace(scope / output_name,
                  ConvShape{.in_channels = width,
                            .out_channels = config.anchors_per_location * values_per_anchor,
                            .kernel = 3,
                            .stride = 1,
                            .bias = true});
}

std::vector<at::Tensor> Head::forward(const std::array<at::Tensor, kLevelCount>& pyramid) const {
  std::vector<at::Tensor> levels(pyramid.begin(), pyramid.end());
  // Layer by layer, not level by level: backward, which goes the other way, then has the gradients
  // of each layer's weights as soon as it has passed the layer, and sends them to other ranks
  // meanwhile.
  for (std::size_t depth = 0; depth < convs_.size(); ++depth) {
    for (at::Tensor& level : levels) {
      if (norms_.empty()) {
        level = convs_[depth].forward(level, {.relu = true});
        continue;
      }
      const GroupNorm& norm = norms_[depth];
      level = convs_[depth].forward(level);
      // On a GPU in the type and the memory format of the convolution: under autocast ATen's norm
      // would be in f32 and row-major. A CPU keeps ATen's, and with it the bits of its results.
      if (level.is_cuda()) {
        level = group_norm_relu(level, kHeadGroups, norm.weight, norm.bias, kGroupNormEps);
      } else {
        level = at::group_norm(level, kHeadGroups, norm.weight, norm.bias, kGroupNormEps).relu_();
      }
    }
  }
  for (at::Tensor& level : levels) {
    // [N, P * values, h, w] -> [N, h * w * P, values]: anchors of a cell stay neighbours.
    // All sizes are given: none can be inferred in a pass without images.
    const at::Tensor output = output_->forward(level);
    const std::int64_t anchors =
        output.size(1) / values_per_anchor_ * output.size(2) * output.size(3);
    // A view if the output is channels-last.
    level = output.permute({0, 2, 3, 1}).reshape({output.size(0), anchors, values_per_anchor_});
  }
  return levels;
}

}  // namespace retina
