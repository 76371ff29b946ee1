// Anchor boxes of RetinaNet (Lin et al. 2017, "Focal loss for dense object detection", section 4):
// 3 sizes x 3 aspect ratios at every cell of P3..P7, or one square (Zhang et al. 2020, section
// 4.1), in torchvision's rounding and order. Plain floats, so that coco-pack can use them without
// LibTorch.
#pragma once

#include <array>
#include <vector>

namespace retina {

constexpr int kLevelCount = 5;      // P3, P4, P5, P6, P7
constexpr int kAnchorsPerCell = 9;  // 3 aspect ratios (outer) x 3 octave sizes (inner); or 1
constexpr int kPadMultiplePx = 32;  // sides of padded images are multiples of this

// log(1000 / 16): cap on dw and dh of a box relative to its anchor, so that exp stays finite
// (torchvision's BoxCoder).
constexpr double kMaxLogSize = 4.135166556742356;

struct PixelSize {
  int height = 0;
  int width = 0;
  friend bool operator==(const PixelSize&, const PixelSize&) = default;
};

// A box x1, y1, x2, y2 in pixels.
using AnchorBox = std::array<float, 4>;

// Anchor layout of a detector.
struct AnchorRule {
  std::vector<double> sizes = {};  // px of the resized image, one for each level
  int per_cell = kAnchorsPerCell;  // or 1
  double offset = 0;               // anchor centre within its cell, in cells; 0 in torchvision

  friend bool operator==(const AnchorRule&, const AnchorRule&) = default;
};

// Returns the anchors of one level around the origin, f32, corners rounded half to even. With 9
// anchors: sizes x, int(x*2^(1/3)), int(x*2^(2/3)) times ratio = height / width in 0.5, 1, 2. With
// 1: the square of size x.
std::vector<AnchorBox> base_anchors(double size_px, int per_cell = kAnchorsPerCell);

// Returns height and width (cells) of P3..P7 for a padded image: each stage halves, rounding up.
std::array<PixelSize, kLevelCount> level_grids(PixelSize padded);

// Returns the number of anchors on each level.
std::array<int, kLevelCount> anchors_per_level(PixelSize padded, int per_cell = kAnchorsPerCell);

// Returns all anchors of a padded image, [A, 4] f32 xyxy px of the padded image, levels P3..P7 one
// after the other; inside a level row by row, cell by cell, then base anchor. A cell's centre is
// its (index + offset) times stride = padded / grid (integer division, per axis). Parity:
// tests/parity.
std::vector<AnchorBox> grid_anchors(const AnchorRule& rule, PixelSize padded);

// Finds which box sizes a set of anchors can learn, ignoring position.
class AnchorCoverage {
 public:
  explicit AnchorCoverage(const std::vector<double>& anchor_sizes, int per_cell = kAnchorsPerCell);
  // Returns the best IoU of any anchor with a concentric box of this size; 0 for a degenerate box.
  double best_iou(double width_px, double height_px) const;

 private:
  std::vector<std::array<double, 2>> shapes_;  // width, height
};

}  // namespace retina
