#include "shared/ops/focal_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstdint>

#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"

namespace retina {

at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& matches, const at::Tensor& labels,
                      const FocalOptions& options) {
  RETINA_CHECK(logits.dim() == 3 && matches.dim() == 2 && labels.dim() == 1);
  RETINA_CHECK(matches.size(0) == logits.size(0) && matches.size(1) == logits.size(1));
  RETINA_CHECK(matches.scalar_type() == at::kLong && labels.scalar_type() == at::kLong);
  const at::Tensor input = logits.detach().contiguous();
  const at::Tensor all_matches = matches.contiguous(), all_labels = labels.contiguous();
  const std::int64_t image_count = logits.size(0);
  const at::Tensor sums = at::empty({image_count}, input.options());
  const at::Tensor partials =
      at::empty({image_count, kernels::kPartials}, input.options().dtype(at::kDouble));
  const at::Tensor gradient =
      kernels::needs_gradient(logits) ? at::empty_like(input) : at::Tensor();
  kernels::for_type_of(input, [&](auto type) {
    using T = decltype(type);
    const kernels::Focal<T> arguments = {
        .logits = input.const_data_ptr<T>(),
        .matches = all_matches.const_data_ptr<std::int64_t>(),
        .labels = all_labels.const_data_ptr<std::int64_t>(),
        .image_count = image_count,
        .anchor_count = logits.size(1),
        .class_count = logits.size(2),
        .alpha = static_cast<T>(options.alpha),
        .gamma = static_cast<T>(options.gamma),
        .partials = partials.mutable_data_ptr<double>(),
        .sums = sums.mutable_data_ptr<T>(),
        .gradient = gradient.defined() ? gradient.mutable_data_ptr<T>() : nullptr};
    kernels::run_twin("focal_loss", input, arguments, kernels::focal_cpu<T>,
                      kernels::focal_cuda<T>);
  });
  return kernels::attach_gradient(logits, sums, gradient);
}

}  // namespace retina
