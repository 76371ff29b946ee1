#include <algorithm>
#include <vector>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

template <class T>
void nms_cpu(const Nms<T>& n) {
  std::fill_n(n.keep, n.count, true);
  std::vector<T> areas(static_cast<std::size_t>(n.count));
  for (std::int64_t i = 0; i < n.count; ++i) {
    areas[static_cast<std::size_t>(i)] = box_area(n.boxes + 4 * i);
  }
  for (std::int64_t i = 0; i < n.count; ++i) {
    if (!n.keep[i]) continue;
    for (std::int64_t j = i + 1; j < n.count; ++j) {
      if (!n.keep[j] || (n.labels != nullptr && n.labels[i] != n.labels[j])) continue;
      const T iou = box_iou(n.boxes + 4 * i, areas[static_cast<std::size_t>(i)], n.boxes + 4 * j,
                            areas[static_cast<std::size_t>(j)]);
      // Compared in f64 as torchvision does: an f32 threshold would sit elsewhere.
      if (static_cast<double>(iou) > n.iou_threshold) n.keep[j] = false;
    }
  }
}

template void nms_cpu(const Nms<float>&);
template void nms_cpu(const Nms<double>&);

}  // namespace retina::kernels
