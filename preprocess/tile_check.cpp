#include "preprocess/tile_check.h"

#include <algorithm>

#include "preprocess/tile_plan.h"
#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {

void TileCheck::add(const Record& record) {
  TiledImage& image = images_[record.image_id];
  if (!record.tile) {
    image.is_on_grid = false;
    return;
  }
  const TilePlace& tile = *record.tile;
  if (image.corners.empty()) {
    image.name = image_name(record.image_id, record.file_name);
    image.size = {.width = tile.image_width, .height = tile.image_height};
  }
  image.sizes_agree &=
      tile.image_width == image.size.width && tile.image_height == image.size.height;
  image.has_twins |= !image.corners.emplace(tile.x, tile.y).second;
  image.is_on_grid &= record.width == std::min(rule_.side_px, tile.image_width) &&
                      record.height == std::min(rule_.side_px, tile.image_height);
  if (!record.whole_annotations) return;
  image.whole_count += 1;
  image.first_has_whole |= tile.x == 0 && tile.y == 0;
}

std::string TileCheck::problem_of(const TiledImage& image) const {
  if (!image.sizes_agree) return "its tiles disagree about its size";
  if (image.has_twins) return "has a tile twice";
  if (image.whole_count != 1 || !image.first_has_whole) {
    return cat("its whole boxes are in ", image.whole_count, " tiles (want 1, the upper left one)");
  }
  const std::vector<int> columns = tile_starts(image.size.width, grid_of(rule_));
  const std::vector<int> rows = tile_starts(image.size.height, grid_of(rule_));
  const bool is_on_grid =
      image.is_on_grid &&
      std::all_of(image.corners.begin(), image.corners.end(), [&](const auto& corner) {
        return std::binary_search(columns.begin(), columns.end(), corner.first) &&
               std::binary_search(rows.begin(), rows.end(), corner.second);
      });
  if (!is_on_grid) return "has a tile that is not one of the options' grid";
  if (rule_.empty >= 1 && image.corners.size() != columns.size() * rows.size()) {
    return cat("lacks tiles (got ", image.corners.size(), ", want ", columns.size() * rows.size(),
               ")");
  }
  return "";
}

std::vector<std::string> TileCheck::problems() const {
  std::vector<std::string> lines;
  for (const auto& [id, image] : images_) {
    const std::string problem = problem_of(image);
    if (!problem.empty()) lines.push_back(cat(image.name, ": ", problem));
  }
  return lines;
}

}  // namespace retina
