#include <algorithm>

#include "shared/ops/box_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/partials.h"

namespace retina::kernels {

template <class T>
void box_loss_cpu(const BoxLoss<T>& b) {
  with_kind(b, [&b](const auto& loss) {
    const auto share_sum = [&b, &loss](std::int64_t image, std::int64_t first, std::int64_t end) {
      double sum = 0;
      for (std::int64_t a = first; a < end; ++a) {
        const std::int64_t row = image * b.anchor_count + a, match = b.matches[row];
        T gradient[4] = {0, 0, 0, 0};
        if (match >= 0) {
          sum += static_cast<double>(
              loss(b.deltas + 4 * row, b.anchors + 4 * a, b.boxes + 4 * match, gradient));
        }
        if (b.gradient != nullptr) std::copy_n(gradient, 4, b.gradient + 4 * row);
      }
      return sum;
    };
    sum_in_shares(
        {.image_count = b.image_count, .anchor_count = b.anchor_count, .values_per_anchor = 4},
        b.partials, b.sums, share_sum);
  });
}

template void box_loss_cpu(const BoxLoss<float>&);
template void box_loss_cpu(const BoxLoss<double>&);

}  // namespace retina::kernels
