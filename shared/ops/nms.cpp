#include "shared/ops/nms.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>
#include <vector>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

template <class T>
void suppress_image(const Nms<T>& n, std::int64_t image) {
  const T* const boxes = n.boxes + 4 * image * n.count;
  const std::int64_t* const labels = n.labels + image * n.count;
  bool* const keep = n.keep + image * n.count;
  std::vector<T> areas(static_cast<std::size_t>(n.count));
  for (std::int64_t i = 0; i < n.count; ++i) {
    areas[static_cast<std::size_t>(i)] = box_area(boxes + 4 * i);
    keep[i] = labels[i] >= 0;
  }
  for (std::int64_t i = 0; i < n.count; ++i) {
    if (!keep[i]) continue;
    for (std::int64_t j = i + 1; j < n.count; ++j) {
      if (!keep[j] || labels[i] != labels[j]) continue;
      const T iou = box_iou(boxes + 4 * i, areas[static_cast<std::size_t>(i)], boxes + 4 * j,
                            areas[static_cast<std::size_t>(j)]);
      // Compared in f64 as torchvision does: an f32 threshold would sit elsewhere.
      if (static_cast<double>(iou) > n.iou_threshold) keep[j] = false;
    }
  }
}

template <class T>
void nms_cpu(const Nms<T>& n) {
  for (std::int64_t image = 0; image < n.image_count; ++image) suppress_image(n, image);
}

}  // namespace
}  // namespace kernels

namespace {

// torchvision's switch between its two ways on the CPU (numel > 4000 there).
constexpr std::int64_t kMaxOffsetBoxes = 1000;

// suppress_together() of dense tensors.
at::Tensor kept(const at::Tensor& boxes, const at::Tensor& labels, double iou_threshold) {
  if (is_replaced(OwnKernel::kNms, boxes)) {
    return kept(boxes.cpu(), labels.cpu(), iou_threshold).to(boxes.device());
  }
  const std::int64_t image_count = boxes.size(0), count = boxes.size(1);
  const at::Tensor keep = at::empty({image_count, count}, boxes.options().dtype(at::kBool));
  const std::int64_t words = boxes.is_cuda() ? (count + 63) / 64 : 0;
  const at::Tensor mask =
      at::empty({image_count, count + 1, words}, boxes.options().dtype(at::kLong));
  if (keep.numel() == 0) return keep;
  kernels::for_type_of(boxes, [&](auto type) {
    using T = decltype(type);
    const kernels::Nms<T> arguments = {.boxes = boxes.const_data_ptr<T>(),
                                       .labels = labels.const_data_ptr<std::int64_t>(),
                                       .image_count = image_count,
                                       .count = count,
                                       .iou_threshold = iou_threshold,
                                       .mask = static_cast<std::uint64_t*>(mask.mutable_data_ptr()),
                                       .keep = keep.mutable_data_ptr<bool>()};
    kernels::run_implementation("nms", boxes, arguments, kernels::nms_cpu<T>);
  });
  return keep;
}

at::Tensor greedy(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                  double iou_threshold) {
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && scores.dim() == 1);
  RETINA_CHECK(boxes.size(0) == scores.size(0));
  const at::Tensor order = std::get<1>(at::sort(scores, /*stable=*/true, 0, /*descending=*/true));
  const at::Tensor sorted = boxes.detach().index_select(0, order).unsqueeze(0),
                   sorted_labels = labels.index_select(0, order).unsqueeze(0);
  return order.index_select(0, kept(sorted, sorted_labels, iou_threshold)[0].nonzero().squeeze(1));
}

}  // namespace

at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                       double iou_threshold) {
  RETINA_CHECK(labels.dim() == 1 && labels.size(0) == boxes.size(0));
  if (boxes.size(0) == 0 || boxes.size(0) > kMaxOffsetBoxes) {
    return greedy(boxes, scores, labels, iou_threshold);
  }
  const at::Tensor offsets = labels.to(boxes.scalar_type()).mul(boxes.max().add(1));  // [M]
  return greedy(boxes.add(offsets.unsqueeze(1)), scores, at::zeros_like(labels), iou_threshold);
}

at::Tensor suppress_together(const at::Tensor& boxes, const at::Tensor& labels,
                             double iou_threshold) {
  RETINA_CHECK(boxes.dim() == 3 && boxes.size(2) == 4 && labels.dim() == 2);
  RETINA_CHECK(labels.size(0) == boxes.size(0) && labels.size(1) == boxes.size(1));
  RETINA_CHECK(labels.scalar_type() == at::kLong);
  return kept(boxes.detach().contiguous(), labels.contiguous(), iou_threshold);
}

}  // namespace retina
