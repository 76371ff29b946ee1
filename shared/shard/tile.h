// A tile: a record that holds a piece of a larger image (coco-pack --tile), and its place there.
#pragma once

#include <string>

#include "shared/base/cat.h"

namespace retina {

// Rule for cutting images into tiles (coco-pack); in the manifest of a set of tiles.
struct TileRule {
  int side_px = 0;
  double overlap = 0.2;     // overlap of neighbours, share of the side, 0 to below 1
  double visibility = 0.4;  // least share of a box inside a tile for it to be an object there
  double empty = 1;         // share of the tiles without any box that are kept

  friend bool operator==(const TileRule&, const TileRule&) = default;
};

// Place of a tile, in pixels of the whole image; the tile's own size is the record's.
struct TilePlace {
  int x = 0, y = 0;  // its upper left corner
  int image_width = 0, image_height = 0;

  friend bool operator==(const TilePlace&, const TilePlace&) = default;
};

// Returns "tile 800x600+1600+0", as X11 writes a rectangle.
inline std::string tile_text(const TilePlace& tile, int width, int height) {
  return cat("tile ", width, "x", height, "+", tile.x, "+", tile.y);
}

}  // namespace retina
