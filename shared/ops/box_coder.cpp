#include "shared/ops/box_coder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>

#include "shared/base/error.h"

namespace retina {

at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors) {
  RETINA_CHECK(deltas.dim() == 2 && deltas.size(1) == 4);
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(1) == 4);
  const at::Tensor left = anchors.narrow(1, 0, 1), top = anchors.narrow(1, 1, 1);  // [M, 1]
  const at::Tensor width = anchors.narrow(1, 2, 1) - left, height = anchors.narrow(1, 3, 1) - top;
  const at::Tensor x = deltas.narrow(1, 0, 1) * width + (left + 0.5 * width);
  const at::Tensor y = deltas.narrow(1, 1, 1) * height + (top + 0.5 * height);
  const at::Tensor half_width =
      0.5 * (at::exp(deltas.narrow(1, 2, 1).clamp_max(kMaxLogSize)) * width);
  const at::Tensor half_height =
      0.5 * (at::exp(deltas.narrow(1, 3, 1).clamp_max(kMaxLogSize)) * height);
  return at::cat({x - half_width, y - half_height, x + half_width, y + half_height}, 1);
}

at::Tensor clip_boxes(const at::Tensor& boxes, PixelSize size) {
  const at::Tensor x = boxes.narrow(1, 0, 1).clamp(0, size.width);
  const at::Tensor y = boxes.narrow(1, 1, 1).clamp(0, size.height);
  return at::cat({x, y, boxes.narrow(1, 2, 1).clamp(0, size.width),
                  boxes.narrow(1, 3, 1).clamp(0, size.height)},
                 1);
}

}  // namespace retina
