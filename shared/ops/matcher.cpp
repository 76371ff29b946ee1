#include "shared/ops/matcher.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"

namespace retina {

at::Tensor match_anchors(const at::Tensor& anchors, const at::Tensor& boxes,
                         const at::Tensor& offsets, const MatchOptions& options) {
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(1) == 4);
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4);
  RETINA_CHECK(boxes.scalar_type() == anchors.scalar_type() && boxes.device() == anchors.device());
  RETINA_CHECK(offsets.dim() == 1 && offsets.size(0) >= 1 && offsets.scalar_type() == at::kLong);
  RETINA_CHECK(options.background_iou <= options.foreground_iou);
  const at::Tensor all_anchors = anchors.detach().contiguous();
  const at::Tensor all_boxes = boxes.detach().contiguous(), all_offsets = offsets.contiguous();
  const at::Tensor matches =
      at::empty({offsets.size(0) - 1, anchors.size(0)}, anchors.options().dtype(at::kLong));
  const at::Tensor best_of_box = at::zeros({boxes.size(0)}, anchors.options());
  kernels::for_type_of(all_anchors, [&](auto type) {
    using T = decltype(type);
    const kernels::Match<T> arguments = {.anchors = all_anchors.const_data_ptr<T>(),
                                         .boxes = all_boxes.const_data_ptr<T>(),
                                         .offsets = all_offsets.const_data_ptr<std::int64_t>(),
                                         .image_count = matches.size(0),
                                         .anchor_count = anchors.size(0),
                                         .foreground_iou = static_cast<T>(options.foreground_iou),
                                         .background_iou = static_cast<T>(options.background_iou),
                                         .low_quality_matches = options.low_quality_matches,
                                         .best_of_box = best_of_box.mutable_data_ptr<T>(),
                                         .matches = matches.mutable_data_ptr<std::int64_t>()};
    kernels::run_implementation("match_anchors", all_anchors, arguments, kernels::match_cpu<T>,
                                kernels::match_cuda<T>);
  });
  return matches;
}

}  // namespace retina
