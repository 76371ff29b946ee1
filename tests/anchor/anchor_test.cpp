#include "shared/anchor/anchor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace retina {
namespace {

const std::vector<double> kSizes = {32, 64, 128, 256, 512};

TEST(Anchor, BaseAnchorsAreRoundedAndRatioIsHeightOverWidth) {
  const auto anchors = base_anchors(32);
  // Ratio 0.5 first: 32 * sqrt(2) = 45.25 wide, 22.63 high, halves rounded.
  EXPECT_EQ(anchors[0], (AnchorBox{-23, -11, 23, 11}));
  // Sizes 32, int(40.3), int(50.8) of ratio 1.
  EXPECT_EQ(anchors[3], (AnchorBox{-16, -16, 16, 16}));
  EXPECT_EQ(anchors[4], (AnchorBox{-20, -20, 20, 20}));
  EXPECT_EQ(anchors[5], (AnchorBox{-25, -25, 25, 25}));
  EXPECT_EQ(anchors[6], (AnchorBox{-11, -23, 11, 23}));
}

TEST(Anchor, RoundsHalvesToEven) {
  EXPECT_EQ(base_anchors(33)[3], (AnchorBox{-16, -16, 16, 16}));  // 16.5
  EXPECT_EQ(base_anchors(35)[3], (AnchorBox{-18, -18, 18, 18}));  // 17.5
}

// torchvision's AnchorGenerator with sizes ((64,), ...) and ratios ((1.0,),) x 5.
TEST(Anchor, ASingleAnchorIsTheSquareOfItsSize) {
  EXPECT_EQ(base_anchors(64, 1), (std::vector<AnchorBox>{{-32, -32, 32, 32}}));
  EXPECT_EQ(base_anchors(33, 1)[0], base_anchors(33)[3]);
  const PixelSize padded = {.height = 64, .width = 96};
  const auto anchors = grid_anchors({.sizes = {64, 128, 256, 512, 1024}, .per_cell = 1}, padded);
  EXPECT_EQ(anchors_per_level(padded, 1)[0], 8 * 12);
  EXPECT_EQ(anchors[1], (AnchorBox{-24, -32, 40, 32}));       // next column
  EXPECT_EQ(anchors[12], (AnchorBox{-32, -24, 32, 40}));      // next row
  EXPECT_EQ(anchors[8 * 12], (AnchorBox{-64, -64, 64, 64}));  // P4
  const AnchorCoverage coverage({64}, 1);
  EXPECT_DOUBLE_EQ(coverage.best_iou(64, 64), 1);
  EXPECT_DOUBLE_EQ(coverage.best_iou(64, 32), 0.5);
}

TEST(Anchor, GridsHalveAndRoundUp) {
  const auto grids = level_grids({.height = 800, .width = 1344});
  EXPECT_EQ(grids[0], (PixelSize{.height = 100, .width = 168}));
  EXPECT_EQ(grids[2], (PixelSize{.height = 25, .width = 42}));
  EXPECT_EQ(grids[3], (PixelSize{.height = 13, .width = 21}));
  EXPECT_EQ(grids[4], (PixelSize{.height = 7, .width = 11}));
}

TEST(Anchor, LevelsFollowEachOtherRowByRowWithoutHalfCellOffset) {
  const PixelSize padded = {.height = 64, .width = 96};
  const auto anchors = grid_anchors({.sizes = kSizes}, padded);
  const auto counts = anchors_per_level(padded);
  EXPECT_EQ(counts[0], 8 * 12 * 9);
  EXPECT_EQ(static_cast<int>(anchors.size()), std::accumulate(counts.begin(), counts.end(), 0));
  EXPECT_EQ(anchors[3], (AnchorBox{-16, -16, 16, 16}));
  EXPECT_EQ(anchors[9 + 3], (AnchorBox{-8, -16, 24, 16}));       // next column
  EXPECT_EQ(anchors[12 * 9 + 3], (AnchorBox{-16, -8, 16, 24}));  // next row
  const auto p4 = static_cast<std::size_t>(counts[0]);
  EXPECT_EQ(anchors[p4 + 3], (AnchorBox{-32, -32, 32, 32}));
  EXPECT_EQ(anchors[p4 + 9 + 3], (AnchorBox{-16, -32, 48, 32}));  // stride 16
}

TEST(Anchor, StrideIsPaddedSizeOverGridAlsoWhereTheGridIsRoundedUp) {
  const PixelSize padded = {.height = 160, .width = 160};  // P6 has 3 cells: stride 160 / 3 = 53
  const auto counts = anchors_per_level(padded);
  const auto p6 = static_cast<std::size_t>(counts[0] + counts[1] + counts[2]);
  const auto anchors = grid_anchors({.sizes = kSizes}, padded);
  EXPECT_EQ(anchors[p6 + 9 + 3][0] - anchors[p6 + 3][0], 53);
}

TEST(AnchorCoverage, AnAnchorsOwnShapeIsCoveredFully) {
  const AnchorCoverage coverage(kSizes);
  EXPECT_DOUBLE_EQ(coverage.best_iou(32, 32), 1);
  EXPECT_DOUBLE_EQ(coverage.best_iou(46, 22), 1);
}

TEST(AnchorCoverage, SmallAndStretchedAndDegenerateBoxesAreCoveredLittle) {
  const AnchorCoverage coverage(kSizes);
  EXPECT_LT(coverage.best_iou(8, 8), 0.1);
  EXPECT_LT(coverage.best_iou(400, 20), 0.2);
  EXPECT_EQ(coverage.best_iou(0, 50), 0);
  EXPECT_EQ(coverage.best_iou(50, -1), 0);
}

TEST(AnchorCoverage, SmallerAnchorsCoverSmallerBoxes) {
  EXPECT_GT(AnchorCoverage({16, 32, 64, 128, 256}).best_iou(14, 14),
            AnchorCoverage(kSizes).best_iou(14, 14));
}

TEST(Anchor, AnOffsetOfHalfAStrideCentresAnchorsInTheirCells) {
  const PixelSize padded = {.height = 96, .width = 224};
  const auto corners = grid_anchors({.sizes = kSizes}, padded),
             centres = grid_anchors({.sizes = kSizes, .offset = 0.5}, padded);
  ASSERT_EQ(corners.size(), centres.size());
  for (std::size_t side = 0; side < 4; ++side) {
    EXPECT_EQ(centres.front()[side] - corners.front()[side], 4);  // P3: stride 8
  }
  // P7 of 96 px has one row: the stride is the whole image.
  EXPECT_EQ(centres.back()[1] - corners.back()[1], 48);
  EXPECT_EQ(centres.back()[0] - corners.back()[0], 56);  // two columns of 112 px
}

}  // namespace
}  // namespace retina
