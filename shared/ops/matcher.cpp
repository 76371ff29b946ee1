#include "shared/ops/matcher.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <type_traits>
#include <vector>

#include "shared/ops/box_formulas.h"
#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {

namespace {

constexpr std::int64_t kBlock = 1024;  // anchors a thread takes at a time

// As wide as T, so that a vector unit chooses both alike.
template <class T>
using Index = std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>;

// Anchors, a row for each corner, filled up with empty boxes; and what encloses them. Neighbours
// in the list are neighbours in the image: most boxes meet none of a block.
template <class T>
struct AnchorBlock {
  T corners[4][kBlock], areas[kBlock];
  T hull[4];

  AnchorBlock(const T* anchors, std::int64_t count) {
    std::copy_n(anchors, 4, hull);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      constexpr T kEmpty[4] = {};
      const T* const anchor = i < count ? anchors + 4 * i : kEmpty;
      for (int corner = 0; corner < 4; ++corner) corners[corner][i] = anchor[corner];
      areas[i] = box_area(anchor);
      if (i >= count) continue;
      for (int side = 0; side < 2; ++side) {
        hull[side] = smaller(hull[side], anchor[side]);
        hull[2 + side] = larger(hull[2 + side], anchor[2 + side]);
      }
    }
  }

  bool meets(const T* box) const {
    return box[0] < hull[2] && box[2] > hull[0] && box[1] < hull[3] && box[3] > hull[1];
  }
  T iou_with(const T* box, T area, std::int64_t i) const {
    const T anchor[4] = {corners[0][i], corners[1][i], corners[2][i], corners[3][i]};
    return box_iou(box, area, anchor, areas[i]);
  }
};

// The best box of each anchor so far: of equal ones the first.
template <class T>
struct BestBoxes {
  std::array<T, kBlock> iou{};
  std::array<Index<T>, kBlock> place{};
};

// Offers box number `g` to all anchors; returns the best IoU.
template <class T>
T offer_box(const AnchorBlock<T>& block, const T* box, Index<T> g, BestBoxes<T>& best) {
  const T area = box_area(box);
  T* const ious = best.iou.data();
  Index<T>* const places = best.place.data();
  T lanes[kLanes] = {};
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const T value = block.iou_with(box, area, i + lane);
      const bool is_better = value > ious[i + lane];
      ious[i + lane] = is_better ? value : ious[i + lane];
      places[i + lane] = is_better ? g : places[i + lane];
      lanes[lane] = larger(lanes[lane], value);
    }
  }
  return *std::max_element(lanes, lanes + kLanes);
}

// Marks the anchors whose IoU with the box is `iou`.
template <class T>
void mark_equal(const AnchorBlock<T>& block, const T* box, T iou, Index<T>* marks) {
  const T area = box_area(box);
  for (std::int64_t i = 0; i < kBlock; ++i) {
    marks[i] |= Index<T>{block.iou_with(box, area, i) == iou};
  }
}

RETINA_WIDE float offer(const AnchorBlock<float>& block, const float* box, std::int32_t g,
                        BestBoxes<float>& best) {
  return offer_box(block, box, g, best);
}
RETINA_WIDE void mark(const AnchorBlock<float>& block, const float* box, float iou,
                      std::int32_t* marks) {
  mark_equal(block, box, iou, marks);
}
double offer(const AnchorBlock<double>& block, const double* box, std::int64_t g,
             BestBoxes<double>& best) {
  return offer_box(block, box, g, best);
}
void mark(const AnchorBlock<double>& block, const double* box, double iou, std::int64_t* marks) {
  mark_equal(block, box, iou, marks);
}

// One image's part of a Match.
template <class T>
struct ImageMatch {
  const Match<T>& all;
  std::int64_t first_box, box_count;
  const T* boxes;         // [box_count, 4]
  T* best_of_box;         // [box_count]
  std::int64_t* matches;  // [A]
};

// Calls body(first anchor, count, block) for all anchors, from several threads.
template <class Body, class T>
void for_blocks(const Match<T>& all, const Body& body) {
  const std::int64_t blocks = (all.anchor_count + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      const std::int64_t first = number * kBlock;
      const std::int64_t count = std::min(kBlock, all.anchor_count - first);
      body(first, count, AnchorBlock<T>(all.anchors + 4 * first, count));
    }
  });
}

template <class T>
void match_image(const ImageMatch<T>& m) {
  // The best box of each anchor, thresholded, and the best IoU of each box.
  std::vector<Index<T>> best_box(static_cast<std::size_t>(m.all.anchor_count));
  std::mutex mutex;
  for_blocks(m.all, [&](std::int64_t first, std::int64_t count, const AnchorBlock<T>& block) {
    BestBoxes<T> best;
    std::vector<T> best_of_box(static_cast<std::size_t>(m.box_count), T(0));
    for (std::int64_t g = 0; g < m.box_count; ++g) {
      const T* const box = m.boxes + 4 * g;
      if (!block.meets(box)) continue;  // all IoUs are 0
      best_of_box[static_cast<std::size_t>(g)] = offer(block, box, static_cast<Index<T>>(g), best);
    }
    std::copy_n(best.place.begin(), count, best_box.begin() + first);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<std::size_t>(i);
      m.matches[first + i] = best.iou[place] < m.all.background_iou ? kBackground
                             : best.iou[place] < m.all.foreground_iou
                                 ? kIgnored
                                 : m.first_box + best.place[place];
    }
    const std::lock_guard lock(mutex);  // a maximum: the order of threads changes nothing
    for (std::int64_t g = 0; g < m.box_count; ++g) {
      m.best_of_box[g] = larger(m.best_of_box[g], best_of_box[static_cast<std::size_t>(g)]);
    }
  });
  if (!m.all.low_quality_matches) return;
  // A second look instead of a [G, A] matrix: the same arithmetic gives the same bits.
  for_blocks(m.all, [&](std::int64_t first, std::int64_t count, const AnchorBlock<T>& block) {
    std::array<Index<T>, kBlock> is_best{};
    for (std::int64_t g = 0; g < m.box_count; ++g) {
      const T* const box = m.boxes + 4 * g;
      if (!(m.best_of_box[g] > 0) || !block.meets(box)) continue;
      mark(block, box, m.best_of_box[g], is_best.data());
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t& match = m.matches[first + i];
      if (match >= 0 || is_best[static_cast<std::size_t>(i)] == 0) continue;
      match = m.first_box + best_box[static_cast<std::size_t>(first + i)];
    }
  });
}

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

constexpr std::int64_t kAnchorsPerThread = 4096;  // fewer do not pay for a thread

template <class T>
void ignore_partial_cpu(const IgnorePartial<T>& p) {
  for (std::int64_t n = 0; n < p.image_count; ++n) {
    if (p.offsets[n] == p.offsets[n + 1]) continue;
    at::parallel_for(0, p.anchor_count, kAnchorsPerThread,
                     [&p, n](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t a = begin; a < end; ++a) ignore_anchor(p, n, a);
                     });
  }
}

}  // namespace
}  // namespace kernels

at::Tensor match_anchors(const at::Tensor& anchors, const at::Tensor& boxes,
                         const at::Tensor& offsets, const MatchOptions& options) {
  kernels::check_boxes_of_images(anchors, boxes, offsets);
  RETINA_CHECK(options.background_iou <= options.foreground_iou);
  if (is_replaced(OwnKernel::kAssigners, anchors)) {
    return match_anchors(anchors.cpu(), boxes.cpu(), offsets.cpu(), options).to(anchors.device());
  }
  const at::Tensor all_anchors = anchors.detach().contiguous();
  const at::Tensor all_boxes = boxes.detach().contiguous(), all_offsets = offsets.contiguous();
  const at::Tensor matches =
      at::empty({offsets.size(0) - 1, anchors.size(0)}, anchors.options().dtype(at::kLong));
  const at::Tensor best_of_box = at::zeros({boxes.size(0)}, anchors.options());
  kernels::for_type_of(all_anchors, [&](auto type) {
    using T = decltype(type);
    const kernels::Match<T> arguments = {.anchors = all_anchors.const_data_ptr<T>(),
                                         .boxes = all_boxes.const_data_ptr<T>(),
                                         .offsets = all_offsets.const_data_ptr<std::int64_t>(),
                                         .image_count = matches.size(0),
                                         .anchor_count = anchors.size(0),
                                         .foreground_iou = static_cast<T>(options.foreground_iou),
                                         .background_iou = static_cast<T>(options.background_iou),
                                         .low_quality_matches = options.low_quality_matches,
                                         .best_of_box = best_of_box.mutable_data_ptr<T>(),
                                         .matches = matches.mutable_data_ptr<std::int64_t>()};
    kernels::run_implementation("match_anchors", all_anchors, arguments, kernels::match_cpu<T>);
  });
  return matches;
}

void ignore_partial_boxes(const at::Tensor& anchors, const PartialBoxes& partial,
                          const at::Tensor& matches) {
  const auto& [boxes, offsets, claims] = partial;
  kernels::check_boxes_of_images(anchors, boxes, offsets);
  RETINA_CHECK(matches.dim() == 2 && matches.size(0) == offsets.size(0) - 1 &&
               matches.size(1) == anchors.size(0) && claims.sizes() == matches.sizes());
  RETINA_CHECK(matches.is_contiguous() && matches.scalar_type() == at::kLong &&
               claims.scalar_type() == at::kLong);
  if (is_replaced(OwnKernel::kAssigners, anchors)) {
    const at::Tensor here = boxes.cpu(), offsets_here = offsets.cpu(), claims_here = claims.cpu(),
                     ignored = matches.cpu();
    ignore_partial_boxes(anchors.cpu(), {here, offsets_here, claims_here}, ignored);
    matches.copy_(ignored);
    return;
  }
  const at::Tensor all_anchors = anchors.detach().contiguous();
  const at::Tensor all_boxes = boxes.detach().contiguous(), all_offsets = offsets.contiguous();
  const at::Tensor all_claims = claims.contiguous();
  kernels::for_type_of(all_anchors, [&](auto type) {
    using T = decltype(type);
    const kernels::IgnorePartial<T> arguments = {
        .anchors = all_anchors.const_data_ptr<T>(),
        .boxes = all_boxes.const_data_ptr<T>(),
        .offsets = all_offsets.const_data_ptr<std::int64_t>(),
        .claims = all_claims.const_data_ptr<std::int64_t>(),
        .image_count = matches.size(0),
        .anchor_count = anchors.size(0),
        .matches = matches.mutable_data_ptr<std::int64_t>()};
    kernels::run_implementation("ignore_partial_boxes", all_anchors, arguments,
                                kernels::ignore_partial_cpu<T>);
  });
}

}  // namespace retina
