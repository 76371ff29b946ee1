// Greedy non-maximum suppression.
#pragma once

#include <ATen/core/Tensor.h>

namespace retina {

// Takes boxes by falling score (ties: lower index first) and drops each whose IoU with a kept one
// of its class is above `iou_threshold`.
//   boxes [M, 4] f32 or f64 xyxy px, scores [M], labels [M] i64
//   -> kept indices [D] i64, by falling score
// Equals torchvision's batched_nms on the CPU to the
// last box (tests/parity; where scores are equal, its order above 1,000 boxes is unspecified): up
// to 1,000 boxes it shifts each class by a coordinate offset, whose rounding can tip an IoU that
// lies on the threshold, above that it treats classes one by one.
at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                       double iou_threshold);

// The same inside each class of each image, all at once.
//   boxes [N, M, 4], of each image by falling score; labels [N, M] i64, negative: no box
//   -> [N, M] bool, whether the box is kept
// Nothing waits for a GPU.
at::Tensor suppress_together(const at::Tensor& boxes, const at::Tensor& labels,
                             double iou_threshold);

}  // namespace retina
