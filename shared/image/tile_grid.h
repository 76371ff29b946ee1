// The grid that cuts a large image into overlapping tiles, for packing, detection and drawing.
#pragma once

#include <string>
#include <vector>

#include "shared/image/resize.h"

namespace retina {

// A rectangle of pixels inside an image.
struct TileRect {
  int x = 0, y = 0, width = 0, height = 0;

  friend bool operator==(const TileRect&, const TileRect&) = default;
};

struct TileGrid {
  int side_px = 800;     // side of a tile; smaller images have tiles of their own side
  double overlap = 0.2;  // overlap of neighbours, share of side_px, 0 to below 1
};

// Returns the starts of tiles along a side of `length_px`: multiples of side - round(side *
// overlap), at least 1, until one reaches the end; that one begins at length - side, as sahi cuts
// them (get_slice_bboxes). Ascending, from 0; they cover the side, and an interval of at most the
// overlap's length lies whole in one of them.
std::vector<int> tile_starts(int length_px, const TileGrid& grid);

// Returns why a row of tiles of an image, which is held in memory, is too large: more than 1 GiB;
// empty if it is not.
std::string problem_of_row(const ImageSize& image, int tile_height_px);

// Returns all tiles of an image, row by row.
std::vector<TileRect> tiles_of(const ImageSize& image, const TileGrid& grid);

}  // namespace retina
