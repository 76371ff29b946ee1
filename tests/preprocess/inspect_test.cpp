#include "preprocess/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

class Inspect : public testing::Test {
 protected:
  Inspect() {
    const SmallCoco coco{.folder = folder_.path(), .with_bad_images = true};
    coco.write();
    pack(coco.options("set"));
  }
  TestFolder folder_;
};

TEST_F(Inspect, ShowsCountsShardsAndCategories) {
  const std::string text = inspect({.folder = folder_ / "set"});
  EXPECT_THAT(text, HasSubstr("images        24 (4 without boxes, 7 quarantined)"));
  EXPECT_THAT(text, HasSubstr("shard-00000-of-"));
  EXPECT_THAT(text, HasSubstr("0      3   car"));
  EXPECT_THAT(text, HasSubstr("never seen"));
}

TEST_F(Inspect, NamesFromTheFileCannotMoveTheCursor) {
  const SmallCoco coco{.folder = folder_ / "odd", .good_count = 3};
  Instances source = coco.write();
  source.categories[0].name = "cat\n\x1b[2J\u202e";
  write_file_atomically(folder_ / "odd/annotations.json", instances_to_json(source));
  pack(coco.options("set"));
  EXPECT_THAT(inspect({.folder = folder_ / "odd/set"}), HasSubstr("17  cat [2J\\xe2\\x80\\xae"));
}

TEST_F(Inspect, ShowsAndDrawsOneImage) {
  const std::string text =
      inspect({.folder = folder_ / "set", .image_id = 4, .draw = folder_ / "out.jpg"});
  EXPECT_THAT(text, HasSubstr("b/3.jpg (image 4): 79x117"));
  EXPECT_THAT(text, HasSubstr("crowd"));
  EXPECT_THAT(text, HasSubstr("drawn: "));
  const std::string jpeg = read_file(folder_ / "out.jpg");
  Image drawn;
  ASSERT_TRUE(JpegDecoder().decode(jpeg, drawn).ok);
  EXPECT_EQ(drawn.width, 79);
  Image original;
  const std::string source = read_file(folder_ / "images/b/3.jpg");
  ASSERT_TRUE(JpegDecoder().decode(source, original).ok);
  EXPECT_NE(drawn.rgb, original.rgb);
}

TEST_F(Inspect, DrawsAgainButReplacesNobodyElsesImage) {
  const InspectOptions options{
      .folder = folder_ / "set", .image_id = 4, .draw = folder_ / "out.jpg"};
  inspect(options);
  inspect(options);
  const std::string photograph = read_file(folder_ / "images/b/3.jpg");
  write_file_atomically(options.draw, photograph);
  EXPECT_THAT(refusal_of(ErrorKind::kCannotCreate, [&] { inspect(options); }),
              HasSubstr("out.jpg: exists and is not ours to replace"));
  EXPECT_EQ(read_file(options.draw), photograph);
}

TEST_F(Inspect, SaysWhyAnImageIsNotThere) {
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput,
                         [&] { inspect({.folder = folder_ / "set", .image_id = 904}); }),
              HasSubstr("size.jpg (image 904) is in quarantine: the image is 50x40"));
  EXPECT_THROW(inspect({.folder = folder_ / "set", .image_id = 12345}), Error);
  EXPECT_THROW(inspect({.folder = folder_ / "set", .image_file = "nowhere"}), Error);
}

TEST_F(Inspect, FindsAnImageByItsFileName) {
  for (const char* name : {"b/3.jpg", "3.jpg"}) {
    EXPECT_THAT(inspect({.folder = folder_ / "set", .image_file = name}),
                HasSubstr("b/3.jpg (image 4)"))
        << name;
  }
}

TEST_F(Inspect, ANameThatLooksTheSameIsFound) {
  const SmallCoco coco{.folder = folder_ / "accents", .good_count = 2};
  Instances source = coco.write();
  const std::string decomposed = "b/e\xCC\x81.jpg";
  std::filesystem::rename(folder_ / "accents/images/b/1.jpg",
                          folder_ / "accents/images/" + decomposed);
  source.images[1].file_name = decomposed;
  write_file_atomically(folder_ / "accents/annotations.json", instances_to_json(source));
  pack(coco.options("set"));
  const InspectOptions options{.folder = folder_ / "accents/set", .image_file = "\xC3\xA9.jpg"};
  EXPECT_THAT(inspect(options), HasSubstr("(image "));
}

TEST_F(Inspect, AFileNameThatSeveralImagesEndInIsRefused) {
  const SmallCoco coco{.folder = folder_ / "twice", .good_count = 2};
  Instances source = coco.write();
  std::filesystem::rename(folder_ / "twice/images/b/1.jpg", folder_ / "twice/images/b/0.jpg");
  source.images[1].file_name = "b/0.jpg";
  write_file_atomically(folder_ / "twice/annotations.json", instances_to_json(source));
  pack(coco.options("set"));
  EXPECT_THAT(
      refusal_of(ErrorKind::kUsage,
                 [&] { inspect({.folder = folder_ / "twice/set", .image_file = "0.jpg"}); }),
      HasSubstr("--image 0.jpg: 2 images end so"));
}

// In the order of an export: images by id, each image's annotations in the file's order, categories
// by id.
Instances in_export_order(Instances instances) {
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::sort(instances.images.begin(), instances.images.end(), by_id);
  std::sort(instances.categories.begin(), instances.categories.end(), by_id);
  std::stable_sort(instances.annotations.begin(), instances.annotations.end(),
                   [](const auto& a, const auto& b) { return a.image_id < b.image_id; });
  return instances;
}

TEST(ExportAnnotations, OfACocoSetAreTheFilesOwnAndReplaceAnEarlierExportAlone) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path()};
  const Instances source = coco.write();
  pack(coco.options("set"));
  const InspectOptions options{.folder = folder / "set", .export_annotations = folder / "out.json"};
  EXPECT_THAT(inspect(options), HasSubstr("annotations: " + folder / "out.json"));
  EXPECT_EQ(instances_to_json(read_instances(folder / "out.json")),
            instances_to_json(in_export_order(source)));
  EXPECT_NO_THROW(inspect(options));
  // The set's own source, and an export that was changed elsewhere.
  for (const std::string& theirs : {read_file(folder / "annotations.json"),
                                    "{\n  " + read_file(folder / "out.json").substr(1)}) {
    write_file_atomically(options.export_annotations, theirs);
    EXPECT_THAT(refusal_of(ErrorKind::kCannotCreate, [&] { inspect(options); }),
                HasSubstr("out.json: exists and is not ours to replace"));
    EXPECT_EQ(read_file(options.export_annotations), theirs);
  }
}

TEST(ExportAnnotations, OfAClassificationSetHaveTheWholeImageForABox) {
  const TestFolder folder;
  const SmallFolders classes{.folder = folder.path()};
  classes.write();
  pack(classes.options("set"));
  inspect({.folder = folder / "set", .export_annotations = folder / "out.json"});
  const Instances read = read_instances(folder / "out.json");
  ASSERT_EQ(read.images.size(), 21U);
  ASSERT_EQ(read.annotations.size(), 21U);
  for (std::size_t i = 0; i < read.images.size(); ++i) {
    const ImageInfo& image = read.images[i];
    const Annotation& one = read.annotations[i];
    EXPECT_EQ(one.image_id, image.id);
    EXPECT_EQ(one.bbox, (std::array<double, 4>{0, 0, 1. * image.width, 1. * image.height}));
    const std::string& name =
        std::find_if(read.categories.begin(), read.categories.end(), [&](const Category& category) {
          return category.id == one.category_id;
        })->name;
    EXPECT_TRUE(image.file_name.starts_with(name + "/")) << image.file_name;
  }
}

}  // namespace
}  // namespace retina
