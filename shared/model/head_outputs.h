// What the network says about every anchor; the interface between model, loss and postprocess.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <vector>

namespace retina {

// A tensor for each level P3..P7, a = the level's anchors in the order of grid_anchors (anchor.h):
// where the heads' last convolutions wrote them, in the type they computed in.
struct HeadOutputs {
  std::vector<at::Tensor> logits;  // [N, a, K] raw class scores, before the sigmoid
  std::vector<at::Tensor> deltas;  // [N, a, 4] encoded boxes relative to the anchors (box_coder.h)
};

// [N, A, V] of all anchors: a copy.
inline at::Tensor all_levels(const std::vector<at::Tensor>& levels) {
  return at::cat(levels, 1);
}

}  // namespace retina
