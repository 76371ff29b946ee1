// How the loss kernels share out their work on the CPU: kPartials fixed shares an image, summed in
// order.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "shared/ops/kernels.h"

namespace retina::kernels {

constexpr std::int64_t kValuesPerThread = 1 << 13;  // fewer do not pay for a thread

// sums[n] = sum over shares of those of level_sum(level, n, first anchor, end anchor), an f64, over
// the share's part of each level. Shares in parallel.
template <class Stored, class LevelSum>
void sum_in_shares(const HeadLoss<Stored>& head, std::int64_t values_per_anchor,
                   const LevelSum& level_sum) {
  const std::int64_t share_values = 1 + head.anchor_count * values_per_anchor / kPartials;
  const std::int64_t grain = 1 + kValuesPerThread / share_values;
  const auto share_sum = [&](std::int64_t image, std::int64_t share) {
    const std::int64_t first = head.anchor_count * share / kPartials,
                       end = head.anchor_count * (share + 1) / kPartials;
    double sum = 0;
    for (int i = 0; i < head.level_count; ++i) {
      const Level<Stored>& level = head.levels[i];
      const std::int64_t from = std::max(first, level.first_anchor),
                         to = std::min(end, level.end_anchor());
      if (from < to) sum += level_sum(level, image, from, to);
    }
    return sum;
  };
  at::parallel_for(0, head.image_count * kPartials, grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       head.partials[i] = share_sum(i / kPartials, i % kPartials);
                     }
                   });
  for (std::int64_t image = 0; image < head.image_count; ++image) {
    const double* partials = head.partials + image * kPartials;
    double sum = 0;
    for (int share = 0; share < kPartials; ++share) sum += partials[share];
    head.sums[image] = static_cast<Loaded<Stored>>(sum);
  }
}

}  // namespace retina::kernels
