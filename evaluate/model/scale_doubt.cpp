#include "evaluate/model/scale_doubt.h"

#include <algorithm>
#include <cmath>

#include "evaluate/options.h"
#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/model/config.h"

namespace retina {
namespace {

constexpr double kMostReduction = 3, kMostTileRatio = 1.5;

// Returns a text like "2.4".
std::string factor_text(double factor) {
  return shortest(std::round(10 * factor) / 10);
}

std::string whole_image_doubt(const ModelScale& model, const ImageIndex& images) {
  if (images.empty()) return "";
  std::vector<ImageSize> sizes;
  for (const IndexEntry& one : images) sizes.push_back({one.width, one.height});
  const auto median = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), median, sizes.end(), [](const ImageSize& a, const ImageSize& b) {
    return std::max(a.width, a.height) < std::max(b.width, b.height);
  });
  const ImageSize seen = framed_size(*median, model.frame);
  const double factor = static_cast<double>(std::max(median->width, median->height)) /
                        std::max(seen.width, seen.height);
  if (factor <= kMostReduction) return "";
  const bool knows_tiles = model.tile_px > 0;
  const std::int64_t side =
      std::max<std::int64_t>(kLeastTilePx, knows_tiles ? model.tile_px : model.frame.min_side_px);
  return cat("images are ", factor_text(factor), " times as large as the model sees (",
             median->width, "x", median->height, " -> ", seen.width, "x", seen.height,
             "): small objects vanish; --tile ", side,
             knows_tiles ? " detects on tiles of the side that it was trained on"
                         : " detects on tiles in full resolution");
}

double distance(double ratio) {
  return std::max(ratio, 1 / ratio);
}

}  // namespace

ModelScale model_scale(const std::string& config_json, const std::string& path) {
  const JsonFile file = JsonFile::parse(config_json, path + ": config");
  const JsonView root = file.root();
  ModelScale scale;
  if (root.has("model")) scale.frame = ModelConfig::from_json(root.at("model")).frame();
  if (root.has("tile_px")) scale.tile_px = static_cast<int>(root.at("tile_px").as_int());
  return scale;
}

std::string scale_doubt(const ModelScale& model, const ImageIndex& images,
                        const std::vector<std::int64_t>& tiles) {
  if (tiles.empty()) return whole_image_doubt(model, images);
  if (model.tile_px <= 0) return "";
  const auto ratio = [&](std::int64_t side) { return static_cast<double>(side) / model.tile_px; };
  const std::int64_t nearest = *std::min_element(
      tiles.begin(), tiles.end(),
      [&](std::int64_t a, std::int64_t b) { return distance(ratio(a)) < distance(ratio(b)); });
  const double factor = distance(ratio(nearest));
  if (factor <= kMostTileRatio) return "";
  return cat("--tile ", nearest, ": the model was trained on tiles of ", model.tile_px,
             " px, and sees objects ", factor_text(factor), " times as ",
             nearest > model.tile_px ? "small" : "large", " here; --tile ", model.tile_px, " fits");
}

}  // namespace retina
