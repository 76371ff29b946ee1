// Boxes relative to anchors (Girshick et al. 2014, appendix C), weights 1: dx, dy in anchor sizes,
// dw, dh as logarithms. Plain ATen: runs wherever its inputs are.
#pragma once

#include <ATen/core/Tensor.h>

#include "shared/anchor/anchor.h"

namespace retina {

// deltas, anchors [M, 4] -> boxes [M, 4] xyxy px. Equals torchvision's BoxCoder (tests/ops).
at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors);

// boxes [M, 4] with x in 0..width and y in 0..height.
at::Tensor clip_boxes(const at::Tensor& boxes, PixelSize size);

}  // namespace retina
