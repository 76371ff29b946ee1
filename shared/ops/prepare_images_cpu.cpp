#include <ATen/Parallel.h>

#include "shared/ops/kernels.h"

namespace retina::kernels {

void prepare_images_cpu(const PrepareImages& p) {
  at::parallel_for(0, p.image_count * p.height, 1, [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const ImageRow& row = p.rows[line / p.height];
      for (int x = 0; x < p.width; ++x) {
        put_pixel(p, row, {x, static_cast<int>(line % p.height)}, line * p.width + x);
      }
    }
  });
}

}  // namespace retina::kernels
