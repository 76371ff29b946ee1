#include "preprocess/tile_plan.h"

#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

// A part of one axis.
struct Span {
  double begin = 0, end = 0;

  double length() const { return std::max(0.0, end - begin); }
  Span within(const Span& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
};

// The box's side from the tile's edge, as begin and length; exact where nothing is clipped.
struct Side {
  double begin = 0, length = 0;
};
Side clipped_side(double begin, double length, const Span& tile) {
  const double end = begin + length;
  if (begin >= tile.begin && end <= tile.end) return {begin - tile.begin, length};
  const double from = std::max(begin, tile.begin) - tile.begin;
  return {from, std::min(end, tile.end) - tile.begin - from};
}

// Returns true if the tile has the point of the image nearest to `at`.
bool has_nearest(double at, const Span& tile, int image_px) {
  const double nearest = std::clamp(at, 0.0, image_px - 1.0);
  return nearest >= tile.begin && nearest < tile.end;
}

}  // namespace

std::vector<RecordAnnotation> annotations_in_tile(std::span<const RecordAnnotation> annotations,
                                                  const ImageSize& image, const TileRect& tile,
                                                  double visibility) {
  const Span columns{static_cast<double>(tile.x), static_cast<double>(tile.x + tile.width)};
  const Span rows{static_cast<double>(tile.y), static_cast<double>(tile.y + tile.height)};
  std::vector<RecordAnnotation> shown;
  for (const RecordAnnotation& whole : annotations) {
    const auto& [x, y, width, height] = whole.bbox;
    const Span across = Span{x, x + width}.within({0, static_cast<double>(image.width)});
    const Span down = Span{y, y + height}.within({0, static_cast<double>(image.height)});
    const double own_area = across.length() * down.length();
    RecordAnnotation part = whole;
    if (own_area <= 0) {
      if (!has_nearest(x, columns, image.width) || !has_nearest(y, rows, image.height)) continue;
      part.bbox = {x - tile.x, y - tile.y, width, height};
      shown.push_back(part);
      continue;
    }
    const double share = across.within(columns).length() * down.within(rows).length() / own_area;
    if (share <= 0) continue;
    const Side horizontal = clipped_side(x, width, columns);
    const Side vertical = clipped_side(y, height, rows);
    part.bbox = {horizontal.begin, vertical.begin, horizontal.length, vertical.length};
    part.area = whole.area * share;
    part.is_partial = !whole.iscrowd && share < visibility;
    shown.push_back(part);
  }
  return shown;
}

bool keeps_empty_tile(const std::string& file_name, const TileRect& tile, double share) {
  const std::uint64_t hash = xxh3(cat(file_name, "+", tile.x, "+", tile.y));
  return std::ldexp(static_cast<double>(hash >> 11), -53) < share;
}

std::vector<PlannedTile> plan_tiles(const PlannedImage& image, const TileRule& rule) {
  RETINA_CHECK(image.stated_size, "image ", image.id);
  const std::vector<TileRect> all = tiles_of(*image.stated_size, grid_of(rule));
  std::vector<PlannedTile> tiles;
  for (std::size_t number = 0; number < all.size(); ++number) {
    PlannedTile tile{.number = number,
                     .place = all[number],
                     .annotations = annotations_in_tile(image.annotations, *image.stated_size,
                                                        all[number], rule.visibility)};
    const bool is_kept = number == 0 || !tile.annotations.empty() ||
                         keeps_empty_tile(image.file_name, tile.place, rule.empty);
    if (is_kept) tiles.push_back(std::move(tile));
  }
  return tiles;
}

}  // namespace retina
