#include "shared/anchor/anchor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "shared/base/error.h"

namespace retina {
namespace {

// Aspect ratios, height / width.
constexpr std::array<float, 3> kRatios = {0.5F, 1.0F, 2.0F};

int half_up(int size) {
  return (size + 1) / 2;
}

}  // namespace

std::vector<AnchorBox> base_anchors(double size_px, int per_cell) {
  RETINA_CHECK(per_cell == kAnchorsPerCell || per_cell == 1, per_cell, " anchors of a cell");
  // The truncation to whole pixels and the f32 arithmetic are torchvision's; both move anchors.
  const std::array<float, 3> sizes = {
      static_cast<float>(size_px), static_cast<float>(std::trunc(size_px * std::pow(2.0, 1.0 / 3))),
      static_cast<float>(std::trunc(size_px * std::pow(2.0, 2.0 / 3)))};
  if (per_cell == 1) {
    const float half = std::nearbyint(sizes[0] / 2.0F);
    return {{-half, -half, half, half}};
  }
  std::vector<AnchorBox> anchors;
  anchors.reserve(kAnchorsPerCell);
  for (const float ratio : kRatios) {
    const float height_ratio = std::sqrt(ratio);
    const float width_ratio = 1.0F / height_ratio;
    for (const float size : sizes) {
      const float x = std::nearbyint(width_ratio * size / 2.0F);
      const float y = std::nearbyint(height_ratio * size / 2.0F);
      anchors.push_back({-x, -y, x, y});
    }
  }
  return anchors;
}

std::array<PixelSize, kLevelCount> level_grids(PixelSize padded) {
  std::array<PixelSize, kLevelCount> grids = {};
  PixelSize size = padded;
  for (int halving = 1; halving <= 7; ++halving) {  // P7 has stride 128
    size = {.height = half_up(size.height), .width = half_up(size.width)};
    if (halving >= 3) grids[static_cast<std::size_t>(halving - 3)] = size;
  }
  return grids;
}

std::array<int, kLevelCount> anchors_per_level(PixelSize padded, int per_cell) {
  std::array<int, kLevelCount> counts = {};
  const auto grids = level_grids(padded);
  for (std::size_t level = 0; level < kLevelCount; ++level) {
    counts[level] = grids[level].height * grids[level].width * per_cell;
  }
  return counts;
}

std::vector<AnchorBox> grid_anchors(const AnchorRule& rule, PixelSize padded) {
  RETINA_CHECK(rule.sizes.size() == kLevelCount, rule.sizes.size(), " anchor sizes");
  RETINA_CHECK(padded.height > 0 && padded.width > 0);
  std::vector<AnchorBox> anchors;
  const auto counts = anchors_per_level(padded, rule.per_cell);
  anchors.reserve(static_cast<std::size_t>(std::reduce(counts.begin(), counts.end())));
  const auto grids = level_grids(padded);
  for (std::size_t level = 0; level < kLevelCount; ++level) {
    const PixelSize grid = grids[level];
    const int stride_y = padded.height / grid.height;
    const int stride_x = padded.width / grid.width;
    const auto base = base_anchors(rule.sizes[level], rule.per_cell);
    for (int row = 0; row < grid.height; ++row) {
      for (int column = 0; column < grid.width; ++column) {
        const auto x = static_cast<float>((column + rule.offset) * stride_x);
        const auto y = static_cast<float>((row + rule.offset) * stride_y);
        for (const AnchorBox& box : base) {
          anchors.push_back({x + box[0], y + box[1], x + box[2], y + box[3]});
        }
      }
    }
  }
  return anchors;
}

AnchorCoverage::AnchorCoverage(const std::vector<double>& anchor_sizes, int per_cell) {
  for (const double size : anchor_sizes) {
    for (const AnchorBox& box : base_anchors(size, per_cell)) {
      shapes_.push_back({static_cast<double>(box[2]) - static_cast<double>(box[0]),
                         static_cast<double>(box[3]) - static_cast<double>(box[1])});
    }
  }
}

double AnchorCoverage::best_iou(double width_px, double height_px) const {
  if (!(width_px > 0) || !(height_px > 0)) return 0;
  double best = 0;
  for (const auto& [width, height] : shapes_) {
    const double inter = std::min(width, width_px) * std::min(height, height_px);
    best = std::max(best, inter / (width * height + width_px * height_px - inter));
  }
  return best;
}

}  // namespace retina
