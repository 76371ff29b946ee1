#include "shared/ops/box_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstdint>

#include "shared/ops/box_coder.h"
#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"

namespace retina {

at::Tensor box_loss(const at::Tensor& deltas, const at::Tensor& anchors, const at::Tensor& boxes,
                    const at::Tensor& matches, const BoxLossOptions& options) {
  RETINA_CHECK(deltas.dim() == 3 && deltas.size(2) == 4 && matches.dim() == 2);
  RETINA_CHECK(matches.size(0) == deltas.size(0) && matches.size(1) == deltas.size(1));
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(0) == deltas.size(1) && anchors.size(1) == 4);
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4);
  RETINA_CHECK(anchors.scalar_type() == deltas.scalar_type());
  RETINA_CHECK(boxes.scalar_type() == deltas.scalar_type());
  RETINA_CHECK(matches.scalar_type() == at::kLong);
  RETINA_CHECK(options.smooth_l1_beta > 0 && options.target_std > 0);
  const at::Tensor input = deltas.detach().contiguous();
  const at::Tensor all_anchors = anchors.contiguous(), all_boxes = boxes.contiguous(),
                   all_matches = matches.contiguous();
  const std::int64_t image_count = deltas.size(0);
  const at::Tensor sums = at::empty({image_count}, input.options());
  const at::Tensor partials =
      at::empty({image_count, kernels::kPartials}, input.options().dtype(at::kDouble));
  const at::Tensor gradient =
      kernels::needs_gradient(deltas) ? at::empty_like(input) : at::Tensor();
  kernels::for_type_of(input, [&](auto type) {
    using T = decltype(type);
    const kernels::BoxLoss<T> arguments = {
        .deltas = input.const_data_ptr<T>(),
        .anchors = all_anchors.const_data_ptr<T>(),
        .boxes = all_boxes.const_data_ptr<T>(),
        .matches = all_matches.const_data_ptr<std::int64_t>(),
        .image_count = image_count,
        .anchor_count = deltas.size(1),
        .options = options,
        .max_log_size = kMaxLogSize,
        .partials = partials.mutable_data_ptr<double>(),
        .sums = sums.mutable_data_ptr<T>(),
        .gradient = gradient.defined() ? gradient.mutable_data_ptr<T>() : nullptr};
    kernels::run_twin("box_loss", input, arguments, kernels::box_loss_cpu<T>,
                      kernels::box_loss_cuda<T>);
  });
  return kernels::attach_gradient(deltas, sums, gradient);
}

}  // namespace retina
