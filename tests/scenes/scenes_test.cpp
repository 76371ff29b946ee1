// The demo's data set keeps its own promises.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "shared/base/file.h"
#include "shared/coco/instances.h"
#include "shared/image/jpeg.h"
#include "tests/support/scenes/data_set.h"
#include "tests/support/scenes/scene.h"
#include "tests/support/scenes/shape.h"
#include "tests/support/test_folder.h"

namespace retina::scenes {
namespace {

TEST(Shapes, LieInsideTheirCircleAndReachIt) {
  for (const ShapeKind kind : kAllShapes) {
    SCOPED_TRACE(class_of(kind).name);
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

TEST(MakeScene, IsAFunctionOfSeedAndNumber) {
  const Scene scene = make_scene(1, 7);
  EXPECT_EQ(scene.image.rgb, make_scene(1, 7).image.rgb);
  EXPECT_NE(scene.image.rgb, make_scene(1, 8).image.rgb);
  EXPECT_NE(scene.image.rgb, make_scene(2, 7).image.rgb);
}

TEST(MakeScene, KeepsBoxesInsideThePicture) {
  int empty = 0, crowds = 0, small = 0;
  for (std::uint32_t number = 0; number < 60; ++number) {
    const Scene scene = make_scene(1, number);
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
    const DecodeStatus status = decoder.decode(bytes.data(), bytes.size(), pixels);
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
  EXPECT_EQ(files, 10);  // 7 pictures, 2 annotation files, scenes.json
}

}  // namespace
}  // namespace retina::scenes
