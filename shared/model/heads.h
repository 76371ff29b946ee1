// The two subnets of RetinaNet (Lin et al. 2017, figure 3 c and d): ModelConfig's head_convs 3x3
// convolutions of fpn_channels (four of 256) and an output convolution, the same weights on every
// level.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"
#include "shared/model/layers.h"

namespace retina {

constexpr double kPriorProbability = 0.01;  // foreground's at the start (Lin et al. 2017, 4.1)

// Returns the weight or bias of the class layer, [P K, ...], as [P, K, ...]: a row for each of the
// P anchors of a cell and each class, anchor-major. Part of the checkpoint format.
at::Tensor rows_by_class(const at::Tensor& layer, std::int64_t anchors_per_cell);

// Outputs of the network for every anchor; the interface between model, loss and postprocess. A
// tensor for each level P3..P7, a = the level's anchors in the order of grid_anchors (anchor.h):
// where the heads' last convolutions wrote them, in the type they computed in.
struct HeadOutputs {
  std::vector<at::Tensor> logits;  // [N, a, K] raw class scores, before the sigmoid
  std::vector<at::Tensor> deltas;  // [N, a, 4] encoded boxes relative to the anchors (box_coder.h)
};

// Returns the outputs of all anchors, [N, A, V]: a copy.
inline at::Tensor all_levels(const std::vector<at::Tensor>& levels) {
  return at::cat(levels, 1);
}

class Head {
 public:
  // Builds a head. `values_per_anchor` is K for classes, 4 for boxes; `output_name` kClassLayer or
  // kBoxLayer.
  Head(const ModelScope& scope, int values_per_anchor, const std::string& output_name,
       const ModelConfig& config);
  // Computes P3..P7, each [N, fpn_channels, h, w] -> [N, h * w * P, values_per_anchor], P anchors
  // of a cell, in the order of grid_anchors: a view of the last convolution's output if that is
  // channels-last.
  std::vector<at::Tensor> forward(const std::array<at::Tensor, kLevelCount>& pyramid) const;

 private:
  struct GroupNorm {
    at::Tensor weight, bias;  // [fpn_channels]
  };

  std::int64_t values_per_anchor_;
  std::vector<Conv> convs_;
  std::vector<GroupNorm> norms_;  // empty without head norm
  std::optional<Conv> output_;
};

}  // namespace retina
