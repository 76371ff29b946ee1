#include <cstdint>

#include "shared/ops/box_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/partials.h"

namespace retina::kernels {

template <class Stored>
void box_loss_cpu(const BoxLoss<Stored>& b) {
  with_kind(b, [&b](const auto& loss) {
    const auto level_sum = [&b, &loss](const Level<Stored>& level, std::int64_t image,
                                       std::int64_t first, std::int64_t end) {
      const std::int64_t* matches = b.head.matches + image * b.head.anchor_count;
      double sum = 0;
      for (std::int64_t a = first; a < end; ++a) {
        const std::int64_t place = level.place(image, a, 4);
        sum += anchor_loss(b, loss, {.anchor = a, .match = matches[a], .image = image},
                           level.values + place, level.gradient + place);
      }
      return sum;
    };
    sum_in_shares(b.head, 4, level_sum);
  });
}

template void box_loss_cpu(const BoxLoss<float>&);
template void box_loss_cpu(const BoxLoss<double>&);
template void box_loss_cpu(const BoxLoss<Bfloat16>&);

}  // namespace retina::kernels
