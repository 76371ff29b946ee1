#include "preprocess/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
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
  try {
    inspect({.folder = folder_ / "set", .image_id = 904});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNoInput);
    EXPECT_THAT(error.what(),
                HasSubstr("size.jpg (image 904) is in quarantine: the image is 50x40"));
  }
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

TEST_F(Inspect, ANameThatLooksTheSameIsFoundOrNamed) {
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
  try {
    inspect({.folder = folder_ / "accents/set", .image_file = "B/\xC3\xA9.JPG"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), HasSubstr("the set has b/"));
  }
}

TEST_F(Inspect, AFileNameThatSeveralImagesEndInIsRefused) {
  const SmallCoco coco{.folder = folder_ / "twice", .good_count = 2};
  Instances source = coco.write();
  std::filesystem::rename(folder_ / "twice/images/b/1.jpg", folder_ / "twice/images/b/0.jpg");
  source.images[1].file_name = "b/0.jpg";
  write_file_atomically(folder_ / "twice/annotations.json", instances_to_json(source));
  pack(coco.options("set"));
  try {
    inspect({.folder = folder_ / "twice/set", .image_file = "0.jpg"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--image-file 0.jpg: 2 images end so"));
  }
}

}  // namespace
}  // namespace retina
