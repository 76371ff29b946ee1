#include "shared/ops/focal_loss.h"

#include <cstdint>

#include "shared/ops/head_loss.h"

namespace retina {

LossSums focal_loss(const std::vector<at::Tensor>& logits, const at::Tensor& matches,
                    const at::Tensor& labels, const at::Tensor& weights,
                    const FocalOptions& options) {
  const kernels::HeadLossInput input = kernels::checked_input(logits, matches, weights);
  RETINA_CHECK(labels.dim() == 1 && labels.scalar_type() == at::kLong);
  const at::Tensor all_labels = labels.contiguous();
  return kernels::with_head_loss(input, [&]<class Stored>(const kernels::HeadLoss<Stored>& head) {
    using T = kernels::Loaded<Stored>;
    const kernels::Focal<Stored> arguments = {.head = head,
                                              .labels = all_labels.const_data_ptr<std::int64_t>(),
                                              .class_count = logits.front().size(2),
                                              .alpha = static_cast<T>(options.alpha),
                                              .gamma = static_cast<T>(options.gamma)};
    kernels::run_implementation("focal_loss", input.matches, arguments, kernels::focal_cpu<Stored>,
                                kernels::focal_cuda<Stored>);
  });
}

}  // namespace retina
