#include <cstdint>
#include <vector>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

namespace {

template <class T>
void suppress_image(const Nms<T>& n, std::int64_t image) {
  const T* const boxes = n.boxes + 4 * image * n.count;
  const std::int64_t* const labels = n.labels == nullptr ? nullptr : n.labels + image * n.count;
  bool* const keep = n.keep + image * n.count;
  std::vector<T> areas(static_cast<std::size_t>(n.count));
  for (std::int64_t i = 0; i < n.count; ++i) {
    areas[static_cast<std::size_t>(i)] = box_area(boxes + 4 * i);
    keep[i] = labels == nullptr || labels[i] >= 0;
  }
  for (std::int64_t i = 0; i < n.count; ++i) {
    if (!keep[i]) continue;
    for (std::int64_t j = i + 1; j < n.count; ++j) {
      if (!keep[j] || (labels != nullptr && labels[i] != labels[j])) continue;
      const T iou = box_iou(boxes + 4 * i, areas[static_cast<std::size_t>(i)], boxes + 4 * j,
                            areas[static_cast<std::size_t>(j)]);
      // Compared in f64 as torchvision does: an f32 threshold would sit elsewhere.
      if (static_cast<double>(iou) > n.iou_threshold) keep[j] = false;
    }
  }
}

}  // namespace

template <class T>
void nms_cpu(const Nms<T>& n) {
  for (std::int64_t image = 0; image < n.image_count; ++image) suppress_image(n, image);
}

template void nms_cpu(const Nms<float>&);
template void nms_cpu(const Nms<double>&);

}  // namespace retina::kernels
