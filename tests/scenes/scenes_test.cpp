// The demo's data set keeps its own promises.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <tuple>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/coco/categories.h"
#include "shared/coco/instances.h"
#include "shared/image/jpeg.h"
#include "tests/support/scenes/data_set.h"
#include "tests/support/scenes/scene.h"
#include "tests/support/scenes/shape.h"
#include "tests/support/test_folder.h"

namespace retina::scenes {
namespace {

TEST(Shapes, LieInsideTheirCircleAndReachIt) {
  for (const ShapeClass& shape : first_classes(5)) {
    SCOPED_TRACE(shape.name);
    const ShapeKind kind = shape.kind;
    double farthest = 0;
    for (double angle = 0; angle < 6.28; angle += 0.01) {
      for (double radius = 0; radius < 1.3; radius += 0.01) {
        const Point point{radius * std::cos(angle), radius * std::sin(angle)};
        if (outline_distance(kind, point) < 0) farthest = std::max(farthest, radius);
        const double texture = texture_value(kind, point, {});
        ASSERT_TRUE(texture >= 0 && texture <= 1) << texture;
      }
    }
    EXPECT_NEAR(farthest, 1.0, 0.02);
  }
}

TEST(Classes, AreCocosNumberOfLooksWithItsIds) {
  std::set<std::string> names;
  std::set<std::tuple<ShapeKind, ShapeKind, double>> looks;
  std::vector<std::int64_t> ids, coco_ids;
  for (const ShapeClass& shape : first_classes(80)) {
    names.insert(shape.name);
    looks.insert({shape.kind, shape.texture, shape.hue});
    ids.push_back(shape.category_id);
    EXPECT_TRUE(shape.hue >= 0 && shape.hue < 1) << shape.name;
  }
  EXPECT_EQ(names.size(), 80U);
  EXPECT_EQ(looks.size(), 80U);
  std::sort(ids.begin(), ids.end());
  for (const Category& one : coco_categories()) coco_ids.push_back(one.id);
  EXPECT_EQ(ids, coco_ids);
  EXPECT_EQ(first_classes(80)[79].name, "ringed blue ring");
}

TEST(Classes, OfASmallerSetAreTheFirstOnes) {
  const auto five = first_classes(5), many = first_classes(80);
  EXPECT_EQ(five.data(), many.data());
  EXPECT_EQ(five[0].name, "disc");
  EXPECT_EQ(five[4].category_id, 90);
}

// The numbers that the README tells of the demo hold for these objects.
TEST(MakeScene, TheDemosImagesStayAsTheyAre) {
  std::string ids;
  for (std::uint32_t number = 0; number < 8; ++number) {
    ids += number == 0 ? "" : " /";
    for (const Annotation& one : make_scene(1, number, first_classes(5)).annotations) {
      ids += cat(" ", one.category_id);
    }
  }
  EXPECT_EQ(ids,
            " 44 3 18 / 44 18 90 90 / 18 7 3 18 7 / 3 7 7 / 90 3 90 3 18 90 90 / 7 90 7 90 90 18"
            " / 3 7 44 / 18 18");
}

TEST(MakeScene, EightyClassesAllAppear) {
  std::set<std::int64_t> seen;
  for (std::uint32_t number = 0; number < 150; ++number) {
    for (const Annotation& one : make_scene(1, number, first_classes(80)).annotations) {
      seen.insert(one.category_id);
    }
  }
  EXPECT_GT(seen.size(), 76U);
}

TEST(MakeScene, IsAFunctionOfSeedAndNumber) {
  const auto five = first_classes(5);
  const Scene scene = make_scene(1, 7, five);
  EXPECT_EQ(scene.image.rgb, make_scene(1, 7, five).image.rgb);
  EXPECT_NE(scene.image.rgb, make_scene(1, 8, five).image.rgb);
  EXPECT_NE(scene.image.rgb, make_scene(2, 7, five).image.rgb);
}

TEST(MakeScene, KeepsBoxesInsideTheImage) {
  int empty = 0, crowds = 0, small = 0;
  for (std::uint32_t number = 0; number < 60; ++number) {
    const Scene scene = make_scene(1, number, first_classes(5));
    if (scene.annotations.empty()) ++empty;
    for (const auto& annotation : scene.annotations) {
      const auto& [x, y, width, height] = annotation.bbox;
      EXPECT_GE(x, 0);
      EXPECT_GE(y, 0);
      EXPECT_GT(width, 0);
      EXPECT_GT(height, 0);
      EXPECT_LE(x + width, scene.image.width);
      EXPECT_LE(y + height, scene.image.height);
      EXPECT_LE(annotation.area, width * height);
      crowds += annotation.iscrowd ? 1 : 0;
      small += annotation.area < 32 * 32 ? 1 : 0;
    }
  }
  EXPECT_GT(empty, 0);
  EXPECT_GT(crowds, 0);
  EXPECT_GT(small, 0);
}

TEST(WriteDataSet, ReadsBackAndDecodesButForTheDamagedFiles) {
  const TestFolder folder;
  const DataSetOptions options{
      .output = folder.path(), .train_count = 12, .validation_count = 6, .threads = 2};
  EXPECT_TRUE(write_data_set(options));
  const Instances train = read_instances(folder / "annotations/instances_train2017.json");
  EXPECT_EQ(train.images.size(), 12U);
  EXPECT_EQ(train.categories.size(), 5U);
  JpegDecoder decoder;
  int damaged = 0, other_size = 0;
  for (const auto& image : train.images) {
    const std::string bytes = read_file(folder / ("images/train2017/" + image.file_name));
    Image pixels;
    const DecodeStatus status = decoder.decode(bytes, pixels);
    if (!status.ok || status.truncated) {
      ++damaged;
    } else if (pixels.width != image.width || pixels.height != image.height) {
      ++other_size;
    }
  }
  EXPECT_EQ(damaged, 3);  // cut, a PNG, empty
  EXPECT_EQ(other_size, 1);
}

TEST(WriteDataSet, DoesNothingWhenTheSetIsThere) {
  const TestFolder folder;
  DataSetOptions options{.output = folder.path(), .train_count = 2, .validation_count = 1};
  EXPECT_TRUE(write_data_set(options));
  EXPECT_FALSE(write_data_set(options));
  options.seed = 2;
  EXPECT_TRUE(write_data_set(options));
}

TEST(WriteDataSet, ListsAsManyClassesAsAskedForById) {
  const TestFolder folder;
  DataSetOptions options{
      .output = folder.path(), .train_count = 2, .validation_count = 1, .classes = 80};
  EXPECT_TRUE(write_data_set(options));
  const Instances train = read_instances(folder / "annotations/instances_train2017.json");
  ASSERT_EQ(train.categories.size(), 80U);
  EXPECT_EQ(train.categories.front().id, 1);
  EXPECT_EQ(train.categories.back().name, "ring");
  options.classes = 81;
  EXPECT_THROW(write_data_set(options), Error);
}

TEST(WriteDataSet, GivesTheSameBytesOnAnyNumberOfThreads) {
  const TestFolder one, three;
  write_data_set({.output = one.path(),
                  .train_count = 6,
                  .validation_count = 1,
                  .threads = 1,
                  .intact = true});
  write_data_set({.output = three.path(),
                  .train_count = 6,
                  .validation_count = 1,
                  .threads = 3,
                  .intact = true});
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(one.path())) {
    if (!entry.is_regular_file()) continue;
    const std::string relative = std::filesystem::relative(entry.path(), one.path()).string();
    EXPECT_EQ(read_file(entry.path().string()), read_file(three / relative)) << relative;
    ++files;
  }
  EXPECT_EQ(files, 10);  // 7 images, 2 annotation files, scenes.json
}

}  // namespace
}  // namespace retina::scenes
