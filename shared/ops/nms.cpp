#include "shared/ops/nms.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>

#include <cstdint>

#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"

namespace retina {
namespace {

// torchvision's switch between its two ways on the CPU (numel > 4000 there).
constexpr std::int64_t kMaxOffsetBoxes = 1000;

// `labels` undefined: all of one class.
at::Tensor greedy(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                  double iou_threshold) {
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && scores.dim() == 1);
  RETINA_CHECK(boxes.size(0) == scores.size(0));
  const std::int64_t count = boxes.size(0);
  const at::Tensor order = std::get<1>(at::sort(scores, /*stable=*/true, 0, /*descending=*/true));
  const at::Tensor sorted = boxes.detach().index_select(0, order).contiguous();
  const at::Tensor sorted_labels =
      labels.defined() ? labels.index_select(0, order).contiguous() : at::Tensor();
  const at::Tensor keep = at::empty({count}, boxes.options().dtype(at::kBool));
  const std::int64_t words = boxes.is_cuda() ? (count + 63) / 64 : 0;
  const at::Tensor mask = at::empty({count + 1, words}, boxes.options().dtype(at::kLong));
  if (count == 0) return order;
  kernels::for_type_of(sorted, [&](auto type) {
    using T = decltype(type);
    const kernels::Nms<T> arguments = {
        .boxes = sorted.const_data_ptr<T>(),
        .labels = labels.defined() ? sorted_labels.const_data_ptr<std::int64_t>() : nullptr,
        .count = count,
        .iou_threshold = iou_threshold,
        .mask = static_cast<std::uint64_t*>(mask.mutable_data_ptr()),
        .keep = keep.mutable_data_ptr<bool>()};
    kernels::run_twin("nms", sorted, arguments, kernels::nms_cpu<T>, kernels::nms_cuda<T>);
  });
  return order.index_select(0, keep.nonzero().squeeze(1));
}

}  // namespace

at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold) {
  return greedy(boxes, scores, {}, iou_threshold);
}

at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                       double iou_threshold) {
  RETINA_CHECK(labels.dim() == 1 && labels.size(0) == boxes.size(0));
  if (boxes.size(0) == 0 || boxes.size(0) > kMaxOffsetBoxes || boxes.is_cuda()) {
    return greedy(boxes, scores, labels, iou_threshold);
  }
  const at::Tensor offsets = labels.to(boxes.scalar_type()).mul(boxes.max().add(1));  // [M]
  return greedy(boxes.add(offsets.unsqueeze(1)), scores, {}, iou_threshold);
}

}  // namespace retina
