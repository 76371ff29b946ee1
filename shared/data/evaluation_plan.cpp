#include "shared/data/evaluation_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "shared/base/cat.h"
#include "shared/data/sample_source.h"
#include "shared/image/tile_grid.h"

namespace retina {

std::vector<std::size_t> visited_places(const ImageIndex& index, std::int64_t max_images) {
  std::vector<std::size_t> places(index.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (max_images <= 0 || static_cast<std::size_t>(max_images) >= index.size()) return places;
  std::set<std::int64_t> ids;
  for (const IndexEntry& entry : index) ids.insert(entry.image_id);
  if (static_cast<std::size_t>(max_images) >= ids.size()) return places;
  const std::int64_t end = *std::next(ids.begin(), static_cast<std::ptrdiff_t>(max_images));
  std::erase_if(places, [&](std::size_t place) { return index[place].image_id >= end; });
  return places;
}

std::string visited_text(const ImageIndex& index, std::int64_t max_images) {
  const std::vector<std::size_t> places = visited_places(index, max_images);
  if (!is_tiled(index)) return counted(places.size(), "image");
  std::set<std::int64_t> ids;
  for (const std::size_t place : places) ids.insert(index[place].image_id);
  return cat(counted(places.size(), "tile"), " of ", counted(ids.size(), "image"));
}

std::string left_out_tiles_text(const ShardSet& shards) {
  const std::optional<TileRule>& rule = shards.manifest().options.tile;
  if (!rule || rule->empty >= 1) return "";
  std::size_t all = 0;
  std::set<std::int64_t> ids;
  for (const IndexEntry& entry : shards.index()) {
    if (!entry.tile || !ids.insert(entry.image_id).second) continue;
    const ImageSize image{.width = entry.tile->image_width, .height = entry.tile->image_height};
    all += tiles_of(image, {.side_px = rule->side_px, .overlap = rule->overlap}).size();
  }
  const std::size_t there = shards.index().size();
  if (all <= there) return "";
  const double share = static_cast<double>(all - there) / static_cast<double>(all);
  return cat(shards.folder(), ": ", all - there, " of ", counted(all, "tile"), " (",
             fixed(100 * share, 1),
             " %), all without boxes, were left out by --tile empty=", shortest(rule->empty),
             ": false positives there are not counted; hint: pack the set with empty=1, or with "
             "--split, whose validation part has all tiles");
}

std::vector<BatchRequest> plan_evaluation(const ImageIndex& index,
                                          const EvaluationPlanOptions& options) {
  const auto full_count = static_cast<std::size_t>(std::max(1, options.images_per_batch));
  std::vector<BatchRequest> plan;
  struct Open {
    std::size_t batch = 0;         // its place in `plan`
    std::size_t stored_bytes = 0;  // of its images
  };
  std::map<std::pair<int, int>, Open> open;  // by height and width
  const std::vector<std::size_t> visited = visited_places(index, options.max_images);
  for (const std::size_t place : visited) {
    if (options.keeps_images_apart && !plan.empty() &&
        index[plan.back().slots.back().record].image_id != index[place].image_id) {
      open.clear();
    }
    const ImageSize image = {index[place].width, index[place].height};
    FrameRule rule = options.frame;
    if (options.keeps_sizes) {
      rule = {Framing::kWhole, std::min(image.width, image.height),
              std::max(image.width, image.height)};
    }
    const ImageSize padded = padded_size(image, rule);
    const ImageSize& shape = options.keeps_sizes ? image : padded;
    Open& batch = open.try_emplace({shape.height, shape.width}, Open{plan.size()}).first->second;
    const std::size_t bytes = stored_bytes(index[place]);
    const std::size_t most_bytes = options.stored_bytes_per_batch;
    if (most_bytes > 0 && batch.stored_bytes > 0 && batch.stored_bytes + bytes > most_bytes) {
      batch = {.batch = plan.size()};
    }
    batch.stored_bytes += bytes;
    if (batch.batch == plan.size()) {
      plan.push_back({.frame = rule,
                      .padded = padded,
                      .part = {.real_image_count = static_cast<int>(visited.size())}});
    }
    std::vector<Slot>& slots = plan[batch.batch].slots;
    slots.push_back({.record = place});
    if (rule.framing == Framing::kSquare) {
      slots.back().warp = Warp{.source_of = middle_square(image, rule)};
    }
    if (slots.size() == full_count) open.erase({shape.height, shape.width});
  }
  return plan;
}

}  // namespace retina
