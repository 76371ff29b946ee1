#include "shared/image/tile_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/image/decode_status.h"

namespace retina {

std::vector<int> tile_starts(int length_px, const TileGrid& grid) {
  RETINA_CHECK(length_px > 0 && grid.side_px > 0 && grid.overlap >= 0 && grid.overlap < 1);
  const int overlap_px = static_cast<int>(std::lround(grid.side_px * grid.overlap));
  const int stride_px = std::max(1, grid.side_px - overlap_px);
  std::vector<int> starts = {0};
  while (length_px - starts.back() > grid.side_px) {
    starts.push_back(std::min(length_px - grid.side_px, starts.back() + stride_px));
  }
  return starts;
}

std::string problem_of_row(const ImageSize& image, int tile_height_px) {
  std::string problem;
  const int height = std::min(image.height, tile_height_px);
  if (!has_too_many_pixels(image.width, height, (std::uint64_t{1} << 30) / 3, problem)) return "";
  return cat("a row of its tiles is an ", problem, "; smaller tiles need less");
}

std::vector<TileRect> tiles_of(const ImageSize& image, const TileGrid& grid) {
  const std::vector<int> columns = tile_starts(image.width, grid);
  std::vector<TileRect> tiles;
  for (const int y : tile_starts(image.height, grid)) {
    for (const int x : columns) {
      tiles.push_back({.x = x,
                       .y = y,
                       .width = std::min(grid.side_px, image.width),
                       .height = std::min(grid.side_px, image.height)});
    }
  }
  return tiles;
}

}  // namespace retina
