#include "preprocess/tile_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shared/base/cat.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

// Random sizes, overlaps and boxes: some without an area, some partly or wholly outside.
class Draw {
 public:
  explicit Draw(std::uint64_t round)
      : random_{.seed = 5, .stream = static_cast<std::uint32_t>(round)} {}

  double number(double low, double high) { return low + random_.unit(at_++) * (high - low); }
  int whole(int low, int high) {
    return low + static_cast<int>(random_.below(at_++, static_cast<std::uint64_t>(high - low + 1)));
  }
  RecordAnnotation box(const ImageSize& image, std::int64_t id) {
    RecordAnnotation box{.id = id, .area = number(1, 9), .label = whole(0, 3)};
    box.iscrowd = whole(0, 5) == 0;
    const auto side = [&] { return whole(0, 9) == 0 ? 0 : number(0.1, 60); };
    box.bbox = {number(-20, image.width + 10), number(-20, image.height + 10), side(), side()};
    if (whole(0, 2) == 0) {
      for (double& one : box.bbox) one = std::floor(one);
    }
    return box;
  }

 private:
  RandomStream random_;
  std::uint64_t at_ = 0;
};

struct Drawn {
  std::vector<RecordAnnotation> boxes{};
  PlannedImage image{};
  TileRule rule{};
  std::vector<PlannedTile> tiles{};
};

Drawn drawn(std::uint64_t round) {
  Draw draw(round);
  const ImageSize size{.width = draw.whole(1, 300), .height = draw.whole(1, 300)};
  Drawn out{.image = {.id = 1, .file_name = "a/1.jpg", .stated_size = size},
            .rule = {.side_px = draw.whole(32, 120),
                     .overlap = draw.number(0, 0.9),
                     .visibility = draw.number(0, 1)}};
  const int boxes = draw.whole(0, 12);
  for (int i = 0; i < boxes; ++i) out.boxes.push_back(draw.box(size, i));
  out.image.annotations = out.boxes;
  out.tiles = plan_tiles(out.image, out.rule);
  return out;
}

double inside(double begin, double length, double low, double high) {
  return std::max(0.0, std::min(begin + length, high) - std::max(begin, low));
}

double area_inside(const RecordAnnotation& box, const TileRect& rect) {
  return inside(box.bbox[0], box.bbox[2], rect.x, rect.x + rect.width) *
         inside(box.bbox[1], box.bbox[3], rect.y, rect.y + rect.height);
}

TEST(TilePlan, EveryPixelIsInATile) {
  for (std::uint64_t round = 0; round < 300; ++round) {
    const Drawn one = drawn(round);
    const auto width = static_cast<std::size_t>(one.image.stated_size->width);
    const auto height = static_cast<std::size_t>(one.image.stated_size->height);
    std::vector<bool> covered(width * height);
    for (const PlannedTile& tile : one.tiles) {
      ASSERT_GE(tile.place.x, 0);
      ASSERT_LE(static_cast<std::size_t>(tile.place.x + tile.place.width), width);
      ASSERT_LE(static_cast<std::size_t>(tile.place.y + tile.place.height), height);
      for (int y = 0; y < tile.place.height; ++y) {
        const auto row = static_cast<std::size_t>(tile.place.y + y) * width +
                         static_cast<std::size_t>(tile.place.x);
        std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(row), tile.place.width, true);
      }
    }
    EXPECT_EQ(std::count(covered.begin(), covered.end(), false), 0) << "round " << round;
  }
}

// What each tile shows is what the area of its intersections says.
TEST(TilePlan, ABoxIsInEveryTileThatShowsSomeOfItAndPartialWhereThatIsTooLittle) {
  for (std::uint64_t round = 0; round < 2000; ++round) {
    SCOPED_TRACE(cat("round ", round));
    const Drawn one = drawn(round);
    const TileRect whole{.width = one.image.stated_size->width,
                         .height = one.image.stated_size->height};
    std::map<std::int64_t, int> count_of;
    for (const PlannedTile& tile : one.tiles) {
      std::map<std::int64_t, RecordAnnotation> shown;
      for (const RecordAnnotation& part : tile.annotations) {
        EXPECT_TRUE(shown.emplace(part.id, part).second);
        ++count_of[part.id];
      }
      for (const RecordAnnotation& box : one.image.annotations) {
        const double own = area_inside(box, whole), here = area_inside(box, tile.place);
        const auto part = shown.find(box.id);
        if (own <= 0) continue;
        ASSERT_EQ(part != shown.end(), here > 0) << "box " << box.id;
        if (here <= 0) continue;
        const RecordAnnotation& got = part->second;
        const double share = here / own;
        EXPECT_EQ(got.iscrowd, box.iscrowd);
        EXPECT_EQ(got.label, box.label);
        if (std::abs(share - one.rule.visibility) > 1e-9) {
          EXPECT_EQ(got.is_partial, !box.iscrowd && share < one.rule.visibility);
        }
        EXPECT_NEAR(got.area, box.area * share, 1e-9 * box.area);
        EXPECT_NEAR(got.bbox[2] * got.bbox[3], here, 1e-9 * (1 + here));
        EXPECT_GE(got.bbox[0], 0);
        EXPECT_GE(got.bbox[1], 0);
        EXPECT_LE(got.bbox[0] + got.bbox[2], tile.place.width + 1e-9);
        EXPECT_LE(got.bbox[1] + got.bbox[3], tile.place.height + 1e-9);
      }
    }
    for (const RecordAnnotation& box : one.image.annotations) {
      EXPECT_GE(count_of[box.id], 1) << "box " << box.id << " is in no tile";
    }
  }
}

TEST(TilePlan, ABoxNoLargerThanTheOverlapIsWholeInATileWithItsOwnNumbers) {
  std::int64_t found = 0;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    const Drawn one = drawn(round);
    const auto overlap_px = static_cast<double>(std::lround(one.rule.side_px * one.rule.overlap));
    const ImageSize& image = *one.image.stated_size;
    for (const RecordAnnotation& box : one.image.annotations) {
      const auto& [x, y, width, height] = box.bbox;
      const bool is_inside =
          x >= 0 && y >= 0 && x + width <= image.width && y + height <= image.height;
      if (!is_inside || width > overlap_px || height > overlap_px || width * height <= 0) continue;
      const bool is_whole =
          std::any_of(one.tiles.begin(), one.tiles.end(), [&](const PlannedTile& tile) {
            return std::any_of(tile.annotations.begin(), tile.annotations.end(),
                               [&](const RecordAnnotation& part) {
                                 return part.id == box.id && !part.is_partial &&
                                        part.area == box.area && part.bbox[2] == width &&
                                        part.bbox[3] == height &&
                                        part.bbox[0] == x - tile.place.x &&
                                        part.bbox[1] == y - tile.place.y;
                               });
          });
      EXPECT_TRUE(is_whole) << "round " << round << ", box " << box.id;
      ++found;
    }
  }
  EXPECT_GT(found, 1000);
}

TEST(TilePlan, ABoxWithoutAnAreaStaysSoAndIsNotTrained) {
  std::int64_t found = 0;
  for (std::uint64_t round = 0; round < 1000; ++round) {
    const Drawn one = drawn(round);
    const TileRect whole{.width = one.image.stated_size->width,
                         .height = one.image.stated_size->height};
    std::set<std::int64_t> degenerate;
    for (const RecordAnnotation& box : one.image.annotations) {
      if (area_inside(box, whole) <= 0) degenerate.insert(box.id);
    }
    for (const PlannedTile& tile : one.tiles) {
      for (const RecordAnnotation& part : tile.annotations) {
        if (degenerate.count(part.id) == 0) continue;
        EXPECT_FALSE(part.is_partial);
        EXPECT_FALSE(is_trainable(part, tile.place.width, tile.place.height)) << "round " << round;
        ++found;
      }
    }
  }
  EXPECT_GT(found, 100);
}

TEST(TilePlan, KeepsAShareOfTheEmptyTilesByNameAndPlaceAndAllOthers) {
  PlannedImage image{.id = 1, .file_name = "a.jpg", .stated_size = ImageSize{4000, 4000}};
  const std::vector<RecordAnnotation> boxes = {
      {.id = 1, .bbox = {3000, 3000, 20, 20}, .area = 400}};
  image.annotations = boxes;
  const auto kept = [&](double share) {
    std::set<std::size_t> numbers;
    for (const PlannedTile& tile :
         plan_tiles(image, {.side_px = 100, .overlap = 0, .empty = share})) {
      numbers.insert(tile.number);
    }
    return numbers;
  };
  const std::set<std::size_t> all = kept(1), some = kept(0.25), none = kept(0);
  EXPECT_EQ(all.size(), 1600U);
  EXPECT_NEAR(static_cast<double>(some.size()), 400, 60);
  EXPECT_EQ(none, (std::set<std::size_t>{0, 1230})) << "the first one and that with the box";
  EXPECT_TRUE(std::includes(some.begin(), some.end(), none.begin(), none.end()));
  image.id = 7;
  EXPECT_EQ(kept(0.25), some);
  image.file_name = "b.jpg";
  EXPECT_NE(kept(0.25), some);
}

}  // namespace
}  // namespace retina
