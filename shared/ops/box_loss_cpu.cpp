#include <algorithm>
#include <cmath>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/partials.h"

namespace retina::kernels {

template <class T>
void box_l1_cpu(const BoxL1<T>& b) {
  const auto share_sum = [&b](std::int64_t image, std::int64_t first, std::int64_t end) {
    double sum = 0;
    for (std::int64_t a = first; a < end; ++a) {
      const std::int64_t row = image * b.anchor_count + a;
      T* gradient = b.gradient == nullptr ? nullptr : b.gradient + 4 * row;
      if (gradient != nullptr) std::fill_n(gradient, 4, T(0));
      if (b.matches[row] < 0) continue;
      T target[4];
      encode_box(b.boxes + 4 * b.matches[row], b.anchors + 4 * a, target);
      for (int i = 0; i < 4; ++i) {
        const T difference = b.deltas[4 * row + i] - target[i];
        sum += static_cast<double>(std::abs(difference));
        if (gradient != nullptr) gradient[i] = T((difference > T(0)) - (difference < T(0)));
      }
    }
    return sum;
  };
  sum_in_shares(
      {.image_count = b.image_count, .anchor_count = b.anchor_count, .values_per_anchor = 4},
      b.partials, b.sums, share_sum);
}

template void box_l1_cpu(const BoxL1<float>&);
template void box_l1_cpu(const BoxL1<double>&);

}  // namespace retina::kernels
