#include "preprocess/tile_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The four tiles of an image of 150 x 150 px.
std::vector<Record> tiles() {
  std::vector<Record> records;
  for (const int y : {0, 50}) {
    for (const int x : {0, 50}) {
      records.push_back(
          {.image_id = 3,
           .file_name = "a.jpg",
           .width = 100,
           .height = 100,
           .tile = TilePlace{.x = x, .y = y, .image_width = 150, .image_height = 150}});
    }
  }
  records[0].whole_annotations.emplace();
  return records;
}

std::vector<std::string> problems(const std::vector<Record>& records, double empty = 1) {
  TileCheck check({.side_px = 100, .overlap = 0.2, .empty = empty});
  for (const Record& record : records) check.add(record);
  return check.problems();
}

TEST(TileCheck, FindsNothingInAnImagesTiles) {
  EXPECT_THAT(problems(tiles()), IsEmpty());
}

TEST(TileCheck, FindsAMissingTileUnlessEmptyOnesMayBeLeftOut) {
  std::vector<Record> records = tiles();
  records.erase(records.begin() + 2);
  EXPECT_THAT(problems(records), ElementsAre("a.jpg (image 3): lacks tiles (got 3, want 4)"));
  EXPECT_THAT(problems(records, 0.5), IsEmpty());
}

TEST(TileCheck, FindsATileThatIsThereTwice) {
  std::vector<Record> records = tiles();
  records.push_back(records.back());
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("has a tile twice")));
}

TEST(TileCheck, FindsATileBesideTheGridOrOfAnotherSize) {
  std::vector<Record> records = tiles();
  records[1].tile->x = 49;
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("not one of the options' grid")));
  records = tiles();
  records[1].width = 99;
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("not one of the options' grid")));
}

TEST(TileCheck, FindsTilesThatDisagreeAboutTheirImage) {
  std::vector<Record> records = tiles();
  records[3].tile->image_height = 151;
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("disagree about its size")));
}

TEST(TileCheck, FindsWholeBoxesThatAreMissingOrTwiceOrInAnotherTile) {
  std::vector<Record> records = tiles();
  records[0].whole_annotations.reset();
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("whole boxes are in 0 tiles")));
  records[2].whole_annotations.emplace();
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("the upper left one")));
  records[0].whole_annotations.emplace();
  EXPECT_THAT(problems(records), ElementsAre(HasSubstr("whole boxes are in 2 tiles")));
}

}  // namespace
}  // namespace retina
