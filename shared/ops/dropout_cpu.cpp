#include <ATen/Parallel.h>

#include <algorithm>

#include "shared/ops/kernels.h"

namespace retina::kernels {

template <class Stored>
void dropout_cpu(const Dropout<Stored>& d) {
  constexpr std::int64_t kValues = 1 << 12;  // fewer do not pay for a thread
  at::parallel_for(
      0, d.image_count * d.value_count, kValues, [&d](std::int64_t begin, std::int64_t end) {
        while (begin < end) {
          const std::int64_t image = begin / d.value_count, first = image * d.value_count;
          const std::int64_t stop = std::min(end, first + d.value_count);
          for (; begin < stop; ++begin) {
            put_dropout(d, image, static_cast<std::uint32_t>(begin - first));
          }
        }
      });
}

template void dropout_cpu(const Dropout<float>&);
template void dropout_cpu(const Dropout<double>&);
template void dropout_cpu(const Dropout<Bfloat16>&);

}  // namespace retina::kernels
