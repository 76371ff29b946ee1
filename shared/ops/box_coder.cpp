#include "shared/ops/box_coder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>

#include "shared/base/error.h"

namespace retina {
namespace {

// Centres and sizes, [M, 1] each.
struct CentreSize {
  at::Tensor x, y, width, height;
};

CentreSize centre_size(const at::Tensor& boxes) {
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4);
  const at::Tensor x1 = boxes.narrow(1, 0, 1), y1 = boxes.narrow(1, 1, 1);
  const at::Tensor width = boxes.narrow(1, 2, 1) - x1, height = boxes.narrow(1, 3, 1) - y1;
  return {.x = x1 + 0.5 * width, .y = y1 + 0.5 * height, .width = width, .height = height};
}

}  // namespace

at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors) {
  RETINA_CHECK(deltas.dim() == 2 && deltas.size(1) == 4);
  const CentreSize anchor = centre_size(anchors);
  const at::Tensor x = deltas.narrow(1, 0, 1) * anchor.width + anchor.x;
  const at::Tensor y = deltas.narrow(1, 1, 1) * anchor.height + anchor.y;
  const at::Tensor half_width =
      0.5 * (at::exp(deltas.narrow(1, 2, 1).clamp_max(kMaxLogSize)) * anchor.width);
  const at::Tensor half_height =
      0.5 * (at::exp(deltas.narrow(1, 3, 1).clamp_max(kMaxLogSize)) * anchor.height);
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
