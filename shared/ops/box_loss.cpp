#include "shared/ops/box_loss.h"

#include <cstdint>

#include "shared/ops/box_coder.h"
#include "shared/ops/head_loss.h"

namespace retina {

LossSums box_loss(const std::vector<at::Tensor>& deltas, const at::Tensor& anchors,
                  const at::Tensor& boxes, const at::Tensor& matches, const at::Tensor& weights,
                  const BoxLossOptions& options) {
  const kernels::HeadLossInput input = kernels::checked_input(deltas, matches, weights);
  RETINA_CHECK(deltas.front().size(2) == 4);
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(0) == matches.size(1) && anchors.size(1) == 4);
  RETINA_CHECK(boxes.dim() == 2 && boxes.size(1) == 4);
  RETINA_CHECK(anchors.scalar_type() == weights.scalar_type());
  RETINA_CHECK(boxes.scalar_type() == weights.scalar_type());
  RETINA_CHECK(options.smooth_l1_beta > 0 && options.target_std > 0);
  const at::Tensor all_anchors = anchors.contiguous(), all_boxes = boxes.contiguous();
  return kernels::with_head_loss(input, [&]<class Stored>(const kernels::HeadLoss<Stored>& head) {
    using T = kernels::Loaded<Stored>;
    const kernels::BoxLoss<Stored> arguments = {.head = head,
                                                .anchors = all_anchors.const_data_ptr<T>(),
                                                .boxes = all_boxes.const_data_ptr<T>(),
                                                .options = options,
                                                .max_log_size = kMaxLogSize};
    kernels::run_implementation("box_loss", input.matches, arguments, kernels::box_loss_cpu<Stored>,
                                kernels::box_loss_cuda<Stored>);
  });
}

}  // namespace retina
