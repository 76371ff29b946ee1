// The demo's data set keeps its own promises.
#include <gtest/gtest.h>

#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/coco/instances.h"
#include "shared/image/jpeg.h"
#include "tests/support/scenes/data_set.h"
#include "tests/support/scenes/scene.h"
#include "tests/support/scenes/shape.h"
#include "tests/support/test_folder.h"

namespace retina::scenes {
namespace {

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

TEST(WriteDataSet, ReadsBackAndDecodesButForTheDamagedFiles) {
  const TestFolder folder;
  const DataSetOptions options{
      .output = folder.path(), .train_count = 12, .validation_count = 6, .threads = 2};
  EXPECT_TRUE(write_data_set(options));
  EXPECT_FALSE(write_data_set(options));  // it is there
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
