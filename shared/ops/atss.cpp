#include "shared/ops/atss.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "shared/ops/atss_formulas.h"
#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

constexpr std::int64_t kBoxesPerThread = 16;  // fewer do not pay for a thread
constexpr int kMostPlaces = kMaxLevels * kAtssCells * kAnchorsPerCell;

// Anchors, a row for each corner, and their IoUs with a box.
template <class T>
struct Candidates {
  std::array<std::int64_t, kMostPlaces> anchors;  // -1: none
  T corners[4][kMostPlaces], ious[kMostPlaces];
};

template <class T>
void fill_ious(const T* box, int count, Candidates<T>& c) {
  const T area = box_area(box);
  for (int i = 0; i < count; ++i) {
    const T anchor[4] = {c.corners[0][i], c.corners[1][i], c.corners[2][i], c.corners[3][i]};
    c.ious[i] = box_iou(box, area, anchor, box_area(anchor));
  }
}
RETINA_WIDE void ious_with(const float* box, int count, Candidates<float>& c) {
  fill_ious(box, count, c);
}
void ious_with(const double* box, int count, Candidates<double>& c) {
  fill_ious(box, count, c);
}

// Those of a box at places first .. end - 1, from place 0 on.
template <class T>
void load_candidates(const Atss<T>& a, std::int64_t box, int first, int end, Candidates<T>& c) {
  const std::int32_t* const cells = a.cells + box * a.level_count * kAtssCells;
  for (int place = first; place < end; ++place) {
    const auto i = static_cast<std::size_t>(place - first);
    c.anchors[i] = candidate_at(a, cells, place);
    for (int corner = 0; corner < 4; ++corner) {
      c.corners[corner][i] = c.anchors[i] < 0 ? T(0) : a.anchors[4 * c.anchors[i] + corner];
    }
  }
  ious_with(a.boxes + 4 * box, end - first, c);
}

// The sum of value(place) over candidates.
template <class T, class Value>
double sum_over(const Candidates<T>& c, int places, const Value& value) {
  std::array<double, kAtssLanes> lanes = {};
  for (int i = 0; i < places; ++i) {
    if (c.anchors[static_cast<std::size_t>(i)] < 0) continue;
    lanes[static_cast<std::size_t>(i % kAtssLanes)] += value(static_cast<double>(c.ious[i]));
  }
  for (std::size_t half = kAtssLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <class T>
void find_threshold(const Atss<T>& a, std::int64_t box, Candidates<T>& c) {
  for (int i = 0; i < a.level_count; ++i) {
    find_nearest_cells(a, a.levels[i], a.boxes + 4 * box,
                       a.cells + (box * a.level_count + i) * kAtssCells);
  }
  const int places = candidate_places(a);
  load_candidates(a, box, 0, places, c);
  const std::int64_t count = candidate_count(a);
  const double mean =
      sum_over(c, places, [](double iou) { return iou; }) / static_cast<double>(count);
  const double squares = sum_over(c, places, [mean](double iou) { return square(iou - mean); });
  a.thresholds[box] = atss_threshold(mean, squares, count);
}

// Gives the anchors of one level to the boxes of one image.
template <class T>
void claim_level(const Atss<T>& a, std::int64_t image, int level, Candidates<T>& c) {
  const int places = kAtssCells * static_cast<int>(a.anchors_per_cell), first = level * places;
  T* const best = a.best + image * a.anchor_count;
  std::int64_t* const matches = a.matches + image * a.anchor_count;
  for (std::int64_t box = a.offsets[image]; box < a.offsets[image + 1]; ++box) {
    load_candidates(a, box, first, first + places, c);
    for (int i = 0; i < places; ++i) {
      const std::int64_t anchor = c.anchors[static_cast<std::size_t>(i)];
      const T iou = c.ious[i];
      if (anchor < 0 || !(static_cast<double>(iou) >= a.thresholds[box])) continue;
      if (matches[anchor] >= 0 && !(iou > best[anchor])) continue;
      if (!is_centred_inside(a, anchor, a.boxes + 4 * box)) continue;
      best[anchor] = iou;
      matches[anchor] = box;
    }
  }
}

template <class T>
void atss_cpu(const Atss<T>& a) {
  at::parallel_for(0, a.box_count, kBoxesPerThread, [&a](std::int64_t begin, std::int64_t end) {
    Candidates<T> candidates;
    for (std::int64_t box = begin; box < end; ++box) find_threshold(a, box, candidates);
  });
  // No two levels share an anchor: no thread writes where another does.
  at::parallel_for(0, a.image_count * a.level_count, 1, [&a](std::int64_t begin, std::int64_t end) {
    Candidates<T> candidates;
    for (std::int64_t i = begin; i < end; ++i) {
      claim_level(a, i / a.level_count, static_cast<int>(i % a.level_count), candidates);
    }
  });
}

}  // namespace
}  // namespace kernels

at::Tensor atss_match_anchors(const at::Tensor& anchors, const std::vector<PixelSize>& grids,
                              const at::Tensor& boxes, const at::Tensor& offsets) {
  kernels::check_boxes_of_images(anchors, boxes, offsets);
  RETINA_CHECK(!grids.empty() && grids.size() <= std::size_t{kernels::kMaxLevels});
  if (is_replaced(OwnKernel::kAssigners, anchors)) {
    return atss_match_anchors(anchors.cpu(), grids, boxes.cpu(), offsets.cpu())
        .to(anchors.device());
  }
  const at::Tensor all_anchors = anchors.detach().contiguous();
  const at::Tensor all_boxes = boxes.detach().contiguous(), all_offsets = offsets.contiguous();
  const std::int64_t image_count = offsets.size(0) - 1, box_count = boxes.size(0);
  const auto level_count = static_cast<std::int64_t>(grids.size());
  std::int64_t cell_count = 0;
  for (const PixelSize& grid : grids) {
    RETINA_CHECK(grid.height > 0 && grid.width > 0);
    cell_count += std::int64_t{grid.height} * grid.width;
  }
  const std::int64_t per_cell = anchors.size(0) / cell_count;
  RETINA_CHECK(
      per_cell * cell_count == anchors.size(0) && per_cell >= 1 && per_cell <= kAnchorsPerCell,
      anchors.size(0), " anchors in ", cell_count, " cells");
  const at::Tensor matches =
      at::full({image_count, anchors.size(0)}, kBackground, anchors.options().dtype(at::kLong));
  const at::Tensor best = at::zeros({image_count, anchors.size(0)}, anchors.options());
  const at::Tensor cells =
      at::empty({box_count, level_count, kernels::kAtssCells}, anchors.options().dtype(at::kInt));
  const at::Tensor thresholds = at::empty({box_count}, anchors.options().dtype(at::kDouble));
  kernels::for_type_of(all_anchors, [&](auto type) {
    using T = decltype(type);
    kernels::Atss<T> arguments = {.anchors = all_anchors.const_data_ptr<T>(),
                                  .boxes = all_boxes.const_data_ptr<T>(),
                                  .offsets = all_offsets.const_data_ptr<std::int64_t>(),
                                  .image_count = image_count,
                                  .anchor_count = anchors.size(0),
                                  .box_count = box_count,
                                  .levels = {},
                                  .level_count = static_cast<int>(level_count),
                                  .anchors_per_cell = per_cell,
                                  .cells = cells.mutable_data_ptr<std::int32_t>(),
                                  .thresholds = thresholds.mutable_data_ptr<double>(),
                                  .best = best.mutable_data_ptr<T>(),
                                  .matches = matches.mutable_data_ptr<std::int64_t>()};
    std::int64_t anchor = 0;
    for (std::size_t i = 0; i < grids.size(); ++i) {
      arguments.levels[i] = {
          .first_anchor = anchor, .rows = grids[i].height, .columns = grids[i].width};
      anchor += std::int64_t{grids[i].height} * grids[i].width * per_cell;
    }
    kernels::run_implementation("atss_match_anchors", all_anchors, arguments, kernels::atss_cpu<T>);
  });
  return matches;
}

}  // namespace retina
