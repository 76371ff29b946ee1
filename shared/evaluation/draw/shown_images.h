// A model's results, drawn on images for people.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/results.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/image/resize.h"
#include "shared/image/tile_grid.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct DrawnImage {
  std::int64_t image_id = 0;
  std::string file_name{};
  std::string part{};    // a large image's: "whole", or the tile; else empty
  int found_count = 0;   // detections drawn
  int object_count = 0;  // ground truth without crowds
  Image image{};
};

// Returns the detections of one image; `detections` ascending by image id.
std::span<const Detection> detections_of(std::int64_t image_id,
                                         const std::vector<Detection>& detections);

// Draws the detections of at least `score`, with name and score, the best on top; returns their
// number. `found` best first.
int draw_found(Image& image, std::span<const Detection> found, double score,
               const CategoryMap& categories);

// Limits for a large image, which is shown as a smaller copy of at most kOverviewSidePx and, in
// full size, as the kShownTiles tiles with the most detections.
inline constexpr int kOverviewSidePx = 2048;
inline constexpr std::size_t kShownTiles = 3;

// Returns the places in `tiles` of those with the most detections of at least `score` in them, by
// their centres; tiles with none do not count. Best first, `count` at most.
std::vector<std::size_t> busiest_tiles(std::span<const Detection> found, double score,
                                       const std::vector<TileRect>& tiles, std::size_t count);

// Returns the detections that touch `part`, in the pixels of a picture of `size` that shows it.
std::vector<Detection> seen_in(std::span<const Detection> found, const TileRect& part,
                               const ImageSize& size);

// Returns the whole image of these records (image_places()), decoded or put together from its
// tiles, reduced to at most `max_side_px` on the longer side. Throws kData for a damaged record.
Image put_together(const ShardSet& shards, const std::vector<std::size_t>& places,
                   JpegDecoder& decoder, int max_side_px);
// Returns places in the index by image id: one, or those of all of its tiles.
std::unordered_map<std::int64_t, std::vector<std::size_t>> image_places(const ShardSet& shards);

struct DrawOptions {
  std::size_t count = 0;                     // pictures at most: images, or parts of a large one
  double score = 0.4;                        // detections below are not drawn
  std::vector<std::int64_t> first_ids = {};  // drawn first, in this order
  std::function<bool(std::int64_t image_id)> may_be_drawn = {};  // empty: all
};

// Calls `use` for images that have objects or detections worth drawing, the first by id unless
// `first_ids` says otherwise: detections with name and score, ground truth dashed. `detections`
// ascending by image id. Large images of a set of tiles come in parts.
void draw_detections(const ShardSet& shards, const std::vector<Detection>& detections,
                     const DrawOptions& options, const std::function<void(const DrawnImage&)>& use);

// Calls `use` for the `count` most confident mistakes of a classifier, each image, enlarged if it
// is tiny, above its true class and the predicted one with its confidence.
void draw_mistakes(const ShardSet& shards, const std::vector<ClassOutcome>& outcomes,
                   std::size_t count, const std::function<void(const DrawnImage&)>& use);

}  // namespace retina
