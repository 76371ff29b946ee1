// How the loss kernels share out their work on the CPU: kPartials fixed shares an image, summed in
// order.
#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

#include "shared/ops/kernels.h"

namespace retina::kernels {

// The whole of what is shared out.
struct ShareOut {
  std::int64_t image_count = 0;
  std::int64_t anchor_count = 0;
  std::int64_t values_per_anchor = 1;
};

constexpr std::int64_t kValuesPerThread = 1 << 13;  // fewer do not pay for a thread

// sums[n] = sum over shares of share_sum(n, first anchor, end anchor), an f64, shares in parallel.
template <class T, class ShareSum>
void sum_in_shares(const ShareOut& out, double* partials, T* sums, const ShareSum& share_sum) {
  const auto [image_count, anchor_count, values_per_anchor] = out;
  const std::int64_t share_values = 1 + anchor_count * values_per_anchor / kPartials;
  const std::int64_t grain = 1 + kValuesPerThread / share_values;
  at::parallel_for(0, image_count * kPartials, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t image = i / kPartials, share = i % kPartials;
      partials[i] = share_sum(image, anchor_count * share / kPartials,
                              anchor_count * (share + 1) / kPartials);
    }
  });
  for (std::int64_t image = 0; image < image_count; ++image) {
    double sum = 0;
    for (int share = 0; share < kPartials; ++share) sum += partials[image * kPartials + share];
    sums[image] = static_cast<T>(sum);
  }
}

}  // namespace retina::kernels
