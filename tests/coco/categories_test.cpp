#include "shared/coco/categories.h"

#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

TEST(Categories, LabelsFollowAscendingIds) {
  const CategoryMap map({{.id = 90, .name = "brush"}, {.id = -2, .name = "a"}, {.id = 7}});
  EXPECT_EQ(map.size(), 3);
  EXPECT_EQ(map.label_of(-2), 0);
  EXPECT_EQ(map.label_of(7), 1);
  EXPECT_EQ(map.label_of(90), 2);
  EXPECT_EQ(map.label_of(8), std::nullopt);
  EXPECT_EQ(map.at(2).name, "brush");
  EXPECT_THROW(map.at(3), Error);
  EXPECT_THROW(map.at(-1), Error);
}

TEST(Categories, NamesAreOneLine) {
  const CategoryMap map({{.id = 1, .name = "traffic\r\nlight\n"},
                         {.id = 2,
                          .name = "\xC2\x85"
                                  "dog"}});
  EXPECT_EQ(map.at(0).name, "traffic light");
  EXPECT_EQ(map.at(1).name, "dog");
}

TEST(Categories, DuplicateIdsAreRefused) {
  EXPECT_EQ(
      refusal_of(ErrorKind::kData,
                 [] {
                   const CategoryMap map({{.id = 3, .name = "cat"}, {.id = 3, .name = "dog"}});
                 }),
      "categories: id 3 appears twice (\"cat\" and \"dog\")");
}

TEST(Categories, EqualNamesAreFound) {
  const CategoryMap map(
      {{.id = 5, .name = "cat"}, {.id = 1, .name = "dog"}, {.id = 9, .name = "cat"}});
  EXPECT_EQ(map.equal_names(), std::pair(1, 2));
  EXPECT_EQ(CategoryMap(coco_categories()).equal_names(), std::nullopt);
}

TEST(Categories, CocoHas80WithGaps) {
  const CategoryMap map(coco_categories());
  EXPECT_EQ(map.size(), 80);
  EXPECT_EQ(map.at(0).name, "person");
  EXPECT_EQ(map.at(79).name, "toothbrush");
  EXPECT_EQ(map.at(79).id, 90);
  EXPECT_EQ(map.label_of(12), std::nullopt);
  EXPECT_EQ(map.label_of(13), 11);
}

}  // namespace
}  // namespace retina
