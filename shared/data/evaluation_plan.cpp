#include "shared/data/evaluation_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace retina {

std::vector<BatchRequest> plan_evaluation(const std::vector<IndexEntry>& index,
                                          const EvaluationPlanOptions& options) {
  const std::size_t ranks = static_cast<std::size_t>(options.rank_count);
  const std::size_t rank = static_cast<std::size_t>(options.rank);
  const std::size_t begin = index.size() * rank / ranks, end = index.size() * (rank + 1) / ranks;
  const FrameRule rule = {options.framing, options.min_side_px, options.max_side_px};
  const auto full_count = static_cast<std::size_t>(std::max(1, options.images_per_batch));

  std::vector<BatchRequest> plan;
  std::map<std::pair<int, int>, std::size_t> open;  // padded (height, width) -> place in `plan`
  for (std::size_t record = begin; record < end; ++record) {
    const ImageSize image = {index[record].width, index[record].height};
    const ImageSize size = padded_size(image, rule);
    const std::pair shape{size.height, size.width};
    auto found = open.find(shape);
    if (found == open.end()) {
      found = open.emplace(shape, plan.size()).first;
      plan.push_back({.framing = options.framing,
                      .min_side_px = options.min_side_px,
                      .max_side_px = options.max_side_px,
                      .padded_width_px = shape.second,
                      .padded_height_px = shape.first});
    }
    auto& slots = plan[found->second].slots;
    slots.push_back({.record = record});
    if (rule.framing == Framing::kSquare) {
      slots.back().warp = Warp{.source_of = middle_square(image, rule)};
    }
    if (slots.size() == full_count) open.erase(found);
  }
  return plan;
}

}  // namespace retina
