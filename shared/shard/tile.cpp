#include "shared/shard/tile.h"

#include "shared/base/cat.h"

namespace retina {

std::string tile_text(const TilePlace& tile, int width, int height) {
  return cat("tile ", width, "x", height, "+", tile.x, "+", tile.y);
}

}  // namespace retina
