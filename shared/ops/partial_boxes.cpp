#include "shared/ops/partial_boxes.h"

#include <ATen/Parallel.h>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"
#include "shared/ops/partial_boxes_formulas.h"

namespace retina {
namespace kernels {
namespace {

constexpr std::int64_t kAnchorsPerThread = 4096;  // fewer do not pay for a thread

template <class T>
void ignore_partial_cpu(const IgnorePartial<T>& p) {
  for (std::int64_t n = 0; n < p.image_count; ++n) {
    if (p.offsets[n] == p.offsets[n + 1]) continue;
    at::parallel_for(0, p.anchor_count, kAnchorsPerThread,
                     [&p, n](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t a = begin; a < end; ++a) ignore_anchor(p, n, a);
                     });
  }
}

}  // namespace
}  // namespace kernels

void ignore_partial_boxes(const at::Tensor& anchors, const PartialBoxes& partial,
                          const at::Tensor& matches) {
  const auto& [boxes, offsets, claims] = partial;
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(1) == 4);
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4);
  RETINA_CHECK(boxes.scalar_type() == anchors.scalar_type() && boxes.device() == anchors.device());
  RETINA_CHECK(offsets.dim() == 1 && offsets.size(0) >= 1 && offsets.scalar_type() == at::kLong);
  RETINA_CHECK(matches.dim() == 2 && matches.size(0) == offsets.size(0) - 1 &&
               matches.size(1) == anchors.size(0) && claims.sizes() == matches.sizes());
  RETINA_CHECK(matches.is_contiguous() && matches.scalar_type() == at::kLong &&
               claims.scalar_type() == at::kLong);
  if (is_replaced(OwnKernel::kAssigners, anchors)) {
    const at::Tensor here = boxes.cpu(), offsets_here = offsets.cpu(), claims_here = claims.cpu(),
                     ignored = matches.cpu();
    ignore_partial_boxes(anchors.cpu(), {here, offsets_here, claims_here}, ignored);
    matches.copy_(ignored);
    return;
  }
  const at::Tensor all_anchors = anchors.detach().contiguous();
  const at::Tensor all_boxes = boxes.detach().contiguous(), all_offsets = offsets.contiguous();
  const at::Tensor all_claims = claims.contiguous();
  kernels::for_type_of(all_anchors, [&](auto type) {
    using T = decltype(type);
    const kernels::IgnorePartial<T> arguments = {
        .anchors = all_anchors.const_data_ptr<T>(),
        .boxes = all_boxes.const_data_ptr<T>(),
        .offsets = all_offsets.const_data_ptr<std::int64_t>(),
        .claims = all_claims.const_data_ptr<std::int64_t>(),
        .image_count = matches.size(0),
        .anchor_count = anchors.size(0),
        .matches = matches.mutable_data_ptr<std::int64_t>()};
    kernels::run_implementation("ignore_partial_boxes", all_anchors, arguments,
                                kernels::ignore_partial_cpu<T>, kernels::ignore_partial_cuda<T>);
  });
}

}  // namespace retina
