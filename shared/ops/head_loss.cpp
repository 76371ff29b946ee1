#include "shared/ops/head_loss.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace retina::kernels {

HeadLossInput checked_input(const std::vector<at::Tensor>& levels, const at::Tensor& matches,
                            const at::Tensor& weights) {
  RETINA_CHECK(!levels.empty() && levels.size() <= std::size_t{kMaxLevels});
  RETINA_CHECK(matches.dim() == 2 && matches.scalar_type() == at::kLong && weights.dim() == 1);
  const at::Tensor& first = levels.front();
  const bool is_bf16 = first.scalar_type() == at::kBFloat16;
  RETINA_CHECK(weights.scalar_type() == (is_bf16 ? at::kFloat : first.scalar_type()));
  HeadLossInput input = {.matches = matches.contiguous(), .weights = weights.contiguous()};
  std::int64_t anchor_count = 0;
  for (const at::Tensor& level : levels) {
    RETINA_CHECK(level.dim() == 3 && level.size(2) == first.size(2));
    RETINA_CHECK(level.scalar_type() == first.scalar_type());
    RETINA_CHECK(level.size(0) == matches.size(0) && level.size(0) == weights.size(0));
    input.levels.push_back(level.detach().contiguous());
    anchor_count += level.size(1);
  }
  RETINA_CHECK(anchor_count == matches.size(1));
  return input;
}

HeadLossResults empty_results(const HeadLossInput& input) {
  const std::int64_t image_count = input.weights.size(0);
  HeadLossResults results = {
      .sums = at::empty_like(input.weights),
      .partials = at::empty({image_count, kPartials}, input.weights.options().dtype(at::kDouble))};
  for (const at::Tensor& level : input.levels) results.gradients.push_back(at::empty_like(level));
  return results;
}

}  // namespace retina::kernels
