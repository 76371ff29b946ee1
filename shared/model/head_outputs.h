// What the network says about every anchor; the interface between model, loss and postprocess.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

// Anchors over all levels P3..P7, in the order of grid_anchors (anchor.h).
struct HeadOutputs {
  at::Tensor logits;  // [N, A, K] raw class scores, before the sigmoid
  at::Tensor deltas;  // [N, A, 4] encoded boxes relative to the anchors (box_coder.h)
};

}  // namespace retina
