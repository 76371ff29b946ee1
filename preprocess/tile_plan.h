// The tiles that an image is cut into, and what each of them shows of the image's boxes: a function
// of the annotations and the options alone, in which the pixels have no say.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "preprocess/pack_plan.h"
#include "shared/image/tile_grid.h"
#include "shared/shard/record.h"
#include "shared/shard/tile.h"

namespace retina {

inline TileGrid grid_of(const TileRule& rule) {
  return {.side_px = rule.side_px, .overlap = rule.overlap};
}

// Returns what a tile shows of `annotations`, in their order and in the tile's pixels. A box
// belongs to the tile as far as it is visible there: the share of the box's own area inside the
// image that lies inside the tile.
//   at least `visibility`   the box, clipped to the tile; its area times the share
//   less, but some          the same, is_partial
//   nothing                 not in the tile
// Crowds stay crowds however little of them is visible. A box without an area inside the image is
// in the tiles that have its corner (the nearest point of the image), moved but not clipped: it
// stays without an area there. A box that lies whole in the tile keeps its numbers exactly.
std::vector<RecordAnnotation> annotations_in_tile(std::span<const RecordAnnotation> annotations,
                                                  const ImageSize& image, const TileRect& tile,
                                                  double visibility);

// Returns true if a tile without any box is among the share that is kept: xxh3 of the image's file
// name and the tile's corner decides, so the same ones are kept in whatever set the image is.
bool keeps_empty_tile(const std::string& file_name, const TileRect& tile, double share);

// A tile to be made.
struct PlannedTile {
  std::size_t number = 0;  // in tiles_of()
  TileRect place{};
  std::vector<RecordAnnotation> annotations{};
};

// The image's tiles in the order of tiles_of(), without the empty ones that are not kept. The first
// one is always there: it has the whole image's annotations, too.
std::vector<PlannedTile> plan_tiles(const PlannedImage& image, const TileRule& rule);

}  // namespace retina
