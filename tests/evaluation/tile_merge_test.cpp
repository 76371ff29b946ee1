#include "shared/evaluation/predict/tile_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "shared/base/measure.h"

namespace retina {
namespace {

Detection found(double score, std::array<double, 4> bbox, std::int64_t category_id = 1,
                std::int64_t image_id = 1) {
  return {.image_id = image_id, .category_id = category_id, .bbox = bbox, .score = score};
}

using Kept = std::vector<std::pair<double, std::array<double, 4>>>;

Kept kept_of(const std::vector<Detection>& all) {
  Kept kept;
  for (const Detection& one : all) kept.emplace_back(one.score, one.bbox);
  return kept;
}

// A long object that two tiles cut: the left part, the right part, and what both have.
const std::vector<Detection> kCut = {found(.8, {0, 0, 60, 10}), found(.9, {40, 0, 60, 10}),
                                     found(.7, {41, 0, 18, 10})};

TEST(TileMerge, SuppressionKeepsTheBestBoxesAsTheyAre) {
  EXPECT_EQ(kept_of(merge_tiles(kCut, {.match = TileMatch::kIos, .threshold = .3})),
            (Kept{{.9, {40, 0, 60, 10}}}));
  EXPECT_EQ(kept_of(merge_tiles(kCut, {.match = TileMatch::kIos})),
            (Kept{{.9, {40, 0, 60, 10}}, {.8, {0, 0, 60, 10}}}));
}

// As a detector gives them where scores begin at 0.05.
TEST(TileMerge, WeakBoxesDoNotWidenAGoodOneByDefault) {
  const std::array<double, 4> good = {100, 100, 40, 40};
  std::vector<Detection> all = {found(.9, good)};
  for (const double shift : {-10., -5., 5., 10.}) {
    all.push_back(found(.06, {100 + shift, 100 + shift, 40, 40}));
  }
  EXPECT_EQ(kept_of(merge_tiles(all, {})).front(), Kept::value_type(.9, good));
}

TEST(TileMerge, GreedyMergingKeepsTheHull) {
  EXPECT_EQ(
      kept_of(merge_tiles(
          kCut, {.kind = TileMergeKind::kGreedyNmm, .match = TileMatch::kIos, .threshold = .3})),
      (Kept{{.9, {0, 0, 100, 10}}}));
}

TEST(TileMerge, ABoxThatMatchesOnlyThroughAnotherIsMergedByNmmAlone) {
  // The first and the third do not touch; the second is in both.
  const std::vector<Detection> chain = {found(.9, {0, 0, 30, 10}), found(.8, {10, 0, 30, 10}),
                                        found(.7, {31, 0, 12, 10})};
  TileMerge merge{.kind = TileMergeKind::kGreedyNmm, .match = TileMatch::kIos};
  EXPECT_EQ(merge_tiles(chain, merge).size(), 2U);
  merge.kind = TileMergeKind::kNmm;
  EXPECT_EQ(kept_of(merge_tiles(chain, merge)), (Kept{{.9, {0, 0, 43, 10}}}));
}

TEST(TileMerge, IntersectionOverSmallerMergesAPartAndOverUnionDoesNot) {
  const std::vector<Detection> part = {found(.9, {0, 0, 100, 100}), found(.8, {10, 10, 20, 20})};
  EXPECT_EQ(merge_tiles(part, {.match = TileMatch::kIos}).size(), 1U);
  EXPECT_EQ(merge_tiles(part, {.match = TileMatch::kIou}).size(), 2U);
}

TEST(TileMerge, ClassesAndImagesStayApart) {
  const std::array<double, 4> box = {0, 0, 10, 10};
  EXPECT_EQ(merge_tiles({found(.9, box, 1), found(.8, box, 2), found(.7, box, 1)}, {}).size(), 2U);
  const auto kept =
      merge_tiles_by_image({found(.9, box, 1, 3), found(.8, box, 1, 3), found(.7, box, 1, 5)}, {});
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[1].image_id, 5);
}

TEST(TileMerge, NoBoxesAndBoxesWithoutAnArea) {
  EXPECT_TRUE(merge_tiles({}, {}).empty());
  const std::array<double, 4> none = {5, 5, 0, 10};
  EXPECT_EQ(merge_tiles({found(.9, none), found(.8, none)}, {}).size(), 2U);
}

// `count` boxes of one image, in clusters, with scores that are often equal.
std::vector<Detection> many(std::size_t count) {
  std::mt19937 random(3);
  const auto below = [&](unsigned end) { return static_cast<double>(random() % end); };
  std::vector<Detection> all;
  while (all.size() < count) {
    const double x = below(30000), y = below(30000), side = 10 + below(80);
    const auto category_id = 1 + static_cast<std::int64_t>(random() % 3);
    for (unsigned i = 0; i < 5 && all.size() < count; ++i) {
      all.push_back(
          found(below(50) / 50, {x + below(8), y + below(8), side, side + below(5)}, category_id));
    }
  }
  return all;
}

TEST(TileMerge, TheOrderOfTheDetectionsDoesNotMatter) {
  std::vector<Detection> all = many(2000);
  for (const auto& [word, kind] : kTileMergeKinds) {
    const Kept first = kept_of(merge_tiles(all, {.kind = kind}));
    EXPECT_LT(first.size(), all.size());
    std::shuffle(all.begin(), all.end(), std::mt19937(7));
    EXPECT_EQ(kept_of(merge_tiles(all, {.kind = kind})), first) << word;
  }
}

// The time is recorded, and no clock decides.
TEST(TileMerge, AHundredThousandBoxesTakeASecondOrSo) {
  const std::vector<Detection> all = many(100'000);
  for (const auto& [word, kind] : kTileMergeKinds) {
    Stopwatch clock;
    EXPECT_LT(merge_tiles(all, {.kind = kind}).size(), all.size() / 2);
    RecordProperty(word, std::to_string(clock.lap_ms()));
  }
}

}  // namespace
}  // namespace retina
