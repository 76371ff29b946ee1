#include "shared/evaluation/predict/tile_merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "shared/base/error.h"

namespace retina {
namespace {

using Corners = std::array<double, 4>;  // x1, y1, x2, y2
using Corners32 = std::array<float, 4>;

Corners corners_of(const Detection& one) {
  const auto& [x, y, width, height] = one.bbox;
  return {x, y, x + width, y + height};
}

Corners hull_of(const Corners& a, const Corners& b) {
  return {std::min(a[0], b[0]), std::min(a[1], b[1]), std::max(a[2], b[2]), std::max(a[3], b[3])};
}

bool comes_before(const Detection& a, const Detection& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.category_id != b.category_id) return a.category_id < b.category_id;
  return corners_of(a) < corners_of(b);
}

// Returns true if two boxes match. Computes in the type of the boxes, each operation rounded as
// sahi's.
template <class Float>
bool are_match(const std::array<Float, 4>& a, const std::array<Float, 4>& b,
               const TileMerge& merge) {
  const Float width = std::max(Float{0}, std::min(a[2], b[2]) - std::max(a[0], b[0]));
  const Float height = std::max(Float{0}, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  const Float shared_area = width * height;
  const Float area_a = (a[2] - a[0]) * (a[3] - a[1]), area_b = (b[2] - b[0]) * (b[3] - b[1]);
  const Float whole =
      merge.match == TileMatch::kIou ? area_a + area_b - shared_area : std::min(area_a, area_b);
  return whole > 0 && shared_area / whole >= static_cast<Float>(merge.threshold);
}

// Holds the remaining boxes by place: in strips by their centres' y, in each by x, and so in blocks
// of neighbours (sort-tile packing, Leutenegger et al. 1997).
class BoxBlocks {
 public:
  explicit BoxBlocks(const std::vector<Corners32>& boxes)
      : boxes_(boxes), order_(boxes.size()), place_of_(boxes.size()), taken_(boxes.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto sort_by = [&](std::size_t begin, std::size_t end, std::size_t axis) {
      const auto at = [&](std::size_t i) {
        return order_.begin() + static_cast<std::ptrdiff_t>(i);
      };
      std::sort(at(begin), at(end), [&](std::size_t a, std::size_t b) {
        return boxes_[a][axis] + boxes_[a][axis + 2] < boxes_[b][axis] + boxes_[b][axis + 2];
      });
    };
    sort_by(0, order_.size(), 1);
    const auto strip =
        static_cast<std::size_t>(std::sqrt(static_cast<double>(order_.size() * kBlockBoxes))) + 1;
    for (std::size_t begin = 0; begin < order_.size(); begin += strip) {
      sort_by(begin, std::min(begin + strip, order_.size()), 0);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Corners32& box = boxes_[order_[i]];
      if (i % kBlockBoxes == 0) blocks_.push_back({.bounds = box});
      auto& [bounds, count] = blocks_.back();
      bounds = {std::min(bounds[0], box[0]), std::min(bounds[1], box[1]),
                std::max(bounds[2], box[2]), std::max(bounds[3], box[3])};
      ++count;
      place_of_[order_[i]] = i;
    }
  }

  bool holds(std::size_t box) const { return !taken_[box]; }

  void take(std::size_t box) {
    taken_[box] = true;
    --blocks_[place_of_[box] / kBlockBoxes].count;
  }

  // Calls `use` with each remaining box that touches `area`.
  template <class Use>
  void for_each_near(const Corners32& area, const Use& use) const {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (blocks_[block].count == 0 || !touch(blocks_[block].bounds, area)) continue;
      const std::size_t begin = block * kBlockBoxes;
      for (std::size_t i = begin; i < std::min(begin + kBlockBoxes, order_.size()); ++i) {
        if (!taken_[order_[i]] && touch(boxes_[order_[i]], area)) use(order_[i]);
      }
    }
  }

 private:
  static constexpr std::size_t kBlockBoxes = 128;
  struct Block {
    Corners32 bounds{};
    std::size_t count = 0;  // remaining boxes
  };

  static bool touch(const Corners32& a, const Corners32& b) {
    return a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3];
  }

  const std::vector<Corners32>& boxes_;
  std::vector<std::size_t> order_, place_of_;
  std::vector<bool> taken_;
  std::vector<Block> blocks_{};
};

// Finds the boxes that each kept one absorbs; the boxes are of one class, in the total order.
class Groups {
 public:
  Groups(const std::vector<Detection>& found, const TileMerge& merge)
      : found_(found), merge_(merge), boxes_(boxes_of(found)), near_(boxes_) {}

  // Returns groups: the kept box first, then those that it absorbs, in that order.
  std::vector<std::vector<std::size_t>> take_all() {
    std::vector<std::vector<std::size_t>> groups;
    std::vector<std::size_t> group_of(found_.size());
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (near_.holds(i)) {
        near_.take(i);
        group_of[i] = groups.size();
        groups.push_back({i});
      } else if (merge_.kind != TileMergeKind::kNmm) {
        continue;
      }
      std::vector<std::size_t>& group = groups[group_of[i]];
      for (const std::size_t one : matches_of(i)) {
        near_.take(one);
        group_of[one] = group_of[i];
        group.push_back(one);
      }
    }
    return groups;
  }

 private:
  static std::vector<Corners32> boxes_of(const std::vector<Detection>& found) {
    std::vector<Corners32> boxes;
    for (const Detection& one : found) {
      const Corners box = corners_of(one);
      boxes.push_back({static_cast<float>(box[0]), static_cast<float>(box[1]),
                       static_cast<float>(box[2]), static_cast<float>(box[3])});
    }
    return boxes;
  }

  // Returns true if a box may absorb another. In sahi's NMM it may absorb one of its own score only
  // if they are the same box.
  bool may_take(std::size_t taker, std::size_t other) const {
    return merge_.kind != TileMergeKind::kNmm ||
           static_cast<float>(found_[taker].score) > static_cast<float>(found_[other].score) ||
           boxes_[taker] == boxes_[other];
  }

  // Returns the remaining matches in the total order; all come after `taker`.
  std::vector<std::size_t> matches_of(std::size_t taker) const {
    std::vector<std::size_t> matches;
    near_.for_each_near(boxes_[taker], [&](std::size_t other) {
      if (may_take(taker, other) && are_match(boxes_[taker], boxes_[other], merge_)) {
        matches.push_back(other);
      }
    });
    std::sort(matches.begin(), matches.end());
    return matches;
  }

  const std::vector<Detection>& found_;
  const TileMerge& merge_;
  const std::vector<Corners32> boxes_;
  BoxBlocks near_;
};

// Returns a kept box, widened by those that it absorbed.
Detection merged(const std::vector<Detection>& found, const std::vector<std::size_t>& group,
                 const TileMerge& merge) {
  Detection kept = found[group.front()];
  if (merge.kind == TileMergeKind::kNms) return kept;
  const Corners own = corners_of(kept);
  Corners hull = own;
  for (std::size_t i = 1; i < group.size(); ++i) {
    const Corners taken = corners_of(found[group[i]]);
    if (are_match(hull, taken, merge)) hull = hull_of(hull, taken);
  }
  if (hull != own) kept.bbox = {hull[0], hull[1], hull[2] - hull[0], hull[3] - hull[1]};
  return kept;
}

}  // namespace

std::vector<Detection> merge_tiles(std::vector<Detection> found, const TileMerge& merge) {
  RETINA_CHECK(merge.threshold > 0);
  std::sort(found.begin(), found.end(), comes_before);
  std::map<std::int64_t, std::vector<Detection>> classes;
  for (const Detection& one : found) classes[one.category_id].push_back(one);
  std::vector<Detection> kept;
  for (const auto& [category_id, of_class] : classes) {
    for (const auto& group : Groups(of_class, merge).take_all()) {
      kept.push_back(merged(of_class, group, merge));
    }
  }
  std::sort(kept.begin(), kept.end(), comes_before);
  return kept;
}

std::vector<Detection> merge_tiles_by_image(const std::vector<Detection>& found,
                                            const TileMerge& merge) {
  std::vector<Detection> all;
  for (auto begin = found.begin(); begin != found.end();) {
    const auto end = std::find_if(
        begin, found.end(), [&](const Detection& one) { return one.image_id != begin->image_id; });
    const std::vector<Detection> kept = merge_tiles({begin, end}, merge);
    all.insert(all.end(), kept.begin(), kept.end());
    begin = end;
  }
  return all;
}

}  // namespace retina
