#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "preprocess/inspect.h"
#include "preprocess/packer.h"
#include "shared/base/file.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

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

TEST(ExportAnnotations, OfACocoSetAreTheFilesOwn) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path()};
  const Instances source = coco.write();
  pack(coco.options("set"));
  const std::string text =
      inspect({.folder = folder / "set", .export_annotations = folder / "out.json"});
  EXPECT_THAT(text, HasSubstr("annotations: " + folder / "out.json"));
  EXPECT_EQ(instances_to_json(read_instances(folder / "out.json")),
            instances_to_json(in_export_order(source)));
}

TEST(ExportAnnotations, ReplaceAnEarlierExportAlone) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path()};
  coco.write();
  pack(coco.options("set"));
  const InspectOptions options{.folder = folder / "set", .export_annotations = folder / "out.json"};
  inspect(options);
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
