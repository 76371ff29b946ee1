#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/matcher.h"

namespace retina::kernels {
namespace {

constexpr std::int64_t kGrain = 1024;  // anchors a thread takes at a time

// One image's part of a Match.
template <class T>
struct ImageMatch {
  const Match<T>& all;
  std::int64_t first_box, box_count;
  const T* boxes;         // [box_count, 4]
  T* best_of_box;         // [box_count]
  std::int64_t* matches;  // [A]
};

template <class T>
void match_image(const ImageMatch<T>& m) {
  std::vector<T> areas(static_cast<std::size_t>(m.box_count));
  for (std::int64_t g = 0; g < m.box_count; ++g) {
    areas[static_cast<std::size_t>(g)] = box_area(m.boxes + 4 * g);
  }
  const T* const anchors = m.all.anchors;
  const std::int64_t anchor_count = m.all.anchor_count;
  const auto iou = [&](std::int64_t a, T anchor_area, std::int64_t g) {
    return box_iou(m.boxes + 4 * g, areas[static_cast<std::size_t>(g)], anchors + 4 * a,
                   anchor_area);
  };
  // The best box of each anchor, thresholded, and the best IoU of each box.
  std::vector<std::int64_t> best_box(static_cast<std::size_t>(anchor_count));
  std::mutex mutex;
  at::parallel_for(0, anchor_count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> best_of_box(static_cast<std::size_t>(m.box_count), T(0));
    for (std::int64_t a = begin; a < end; ++a) {
      const T area = box_area(anchors + 4 * a);
      T best = -1;
      std::int64_t place = 0;
      for (std::int64_t g = 0; g < m.box_count; ++g) {
        const T value = iou(a, area, g);
        if (value > best) best = value, place = g;
        T& of_box = best_of_box[static_cast<std::size_t>(g)];
        of_box = larger(of_box, value);
      }
      best_box[static_cast<std::size_t>(a)] = place;
      m.matches[a] = best < m.all.background_iou   ? kBackground
                     : best < m.all.foreground_iou ? kIgnored
                                                   : m.first_box + place;
    }
    const std::lock_guard lock(mutex);  // a maximum: the order of threads changes nothing
    for (std::int64_t g = 0; g < m.box_count; ++g) {
      m.best_of_box[g] = larger(m.best_of_box[g], best_of_box[static_cast<std::size_t>(g)]);
    }
  });
  if (!m.all.low_quality_matches) return;
  // A second look instead of a [G, A] matrix: the same arithmetic gives the same bits.
  at::parallel_for(0, anchor_count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t a = begin; a < end; ++a) {
      if (m.matches[a] >= 0) continue;
      const T area = box_area(anchors + 4 * a);
      for (std::int64_t g = 0; g < m.box_count; ++g) {
        const T value = iou(a, area, g);
        if (!(value > 0) || value != m.best_of_box[g]) continue;
        m.matches[a] = m.first_box + best_box[static_cast<std::size_t>(a)];
        break;
      }
    }
  });
}

}  // namespace

template <class T>
void match_cpu(const Match<T>& m) {
  for (std::int64_t n = 0; n < m.image_count; ++n) {
    const std::int64_t first = m.offsets[n], count = m.offsets[n + 1] - first;
    std::int64_t* const matches = m.matches + n * m.anchor_count;
    if (count == 0) {
      std::fill_n(matches, m.anchor_count, kBackground);
      continue;
    }
    match_image<T>({.all = m,
                    .first_box = first,
                    .box_count = count,
                    .boxes = m.boxes + 4 * first,
                    .best_of_box = m.best_of_box + first,
                    .matches = matches});
  }
}

template void match_cpu(const Match<float>&);
template void match_cpu(const Match<double>&);

}  // namespace retina::kernels
