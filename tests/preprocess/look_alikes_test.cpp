// Names in the annotations that are not those of the files, and the cures that packing tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "preprocess/packer.h"
#include "preprocess/summary.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "shared/shard/quarantine.h"
#include "tests/support/child_process.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

// Files in a folder "images", and annotations that call them otherwise.
class LookAlikes : public testing::Test {
 protected:
  // The file `there`; one of size 40 x 30 unless `bytes` are given.
  void file(const std::string& there, const std::string& bytes = "") {
    const std::string path = folder_ / "images/" + there;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file_atomically(path, bytes.empty() ? encode_jpeg(colourful(40, 30), 90) : bytes);
  }
  void image(const std::string& name, int width = 40, int height = 30) {
    instances_.images.push_back({.id = static_cast<std::int64_t>(instances_.images.size()) + 1,
                                 .file_name = name,
                                 .width = width,
                                 .height = height});
  }
  // A good one, so that there is a set.
  void good() {
    file("good.jpg");
    image("good.jpg");
  }

  PackOptions options() {
    instances_.categories = {{.id = 3, .name = "thing"}};
    write_file_atomically(folder_ / "annotations.json", instances_to_json(instances_));
    return {.annotations = folder_ / "annotations.json",
            .images = folder_ / "images",
            .output = folder_ / "set"};
  }
  PackResult pack_set() { return pack(options()); }

  std::map<std::string, QuarantinedImage> quarantined() const {
    std::map<std::string, QuarantinedImage> by_name;
    const std::string path = folder_ / "set/quarantine.jsonl";
    for (const QuarantinedImage& bad : decode_quarantine(read_file(path), path)) {
      by_name[bad.file_name] = bad;
    }
    return by_name;
  }

  TestFolder folder_;
  Instances instances_;
};

TEST_F(LookAlikes, OtherSpellingsOfANameAreFoundAndToldOnce) {
  file("sub/a.jpg");
  file("b c.jpg");
  file("cafe\xCC\x81.jpg");
  file("d.jpg");
  file("e.jpg");
  file("f.jpg");
  for (const char* name : {"sub\\a.jpg", "b%20c.jpg", "caf\xC3\xA9.jpg", "images/d.jpg",
                           "/elsewhere/images/e.jpg", "f"}) {
    image(name);
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(pack_set().manifest.counts.images, 6);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("6 files were found under a different spelling from the annotations ("));
  EXPECT_TRUE(pack_set().was_finished);
}

TEST_F(LookAlikes, TheFileOfTheVeryNameComesFirst) {
  file("images/a.jpg");
  file("a.jpg", encode_jpeg(colourful(8, 8), 90));
  image("images/a.jpg");
  EXPECT_EQ(pack_set().manifest.counts.images, 1);
}

TEST_F(LookAlikes, AMissingFileHasTheNameOfItsLookAlike) {
  good();
  file("IMG_1.JPG");
  file("b.jpg");
  file("deep/c.jpg");
  file("d.jpg");
  file("other/e.JPG");
  file(".ipynb_checkpoints/none.jpg");
  image("img_1.jpg");
  image("b.png");
  image("c.jpg");
  image("x/d.jpg");
  image("e.jpg");
  image("none.jpg");
  file("Zoe\xCC\x88/mixed\xC3\xBC.jpg");
  image("Zo\xC3\xAB/mixed\xC3\xBC.jpg");
  pack_set();
  auto bad = quarantined();
  EXPECT_EQ(bad["img_1.jpg"].reason, "does not exist; the folder has IMG_1.JPG");
  EXPECT_THAT(bad["img_1.jpg"].hint, HasSubstr("capital letters"));
  EXPECT_EQ(bad["b.png"].reason, "does not exist; the folder has b.jpg");
  EXPECT_THAT(bad["b.png"].hint, HasSubstr("endings"));
  EXPECT_THAT(bad["c.jpg"].reason, HasSubstr("deep/c.jpg"));
  EXPECT_THAT(bad["c.jpg"].hint, HasSubstr("correct the folders")) << "one of many lies there";
  EXPECT_EQ(bad["x/d.jpg"].hint, "remove \"x/\" from the file names in the annotations");
  EXPECT_THAT(bad["e.jpg"].hint, HasSubstr("folders"));
  EXPECT_THAT(bad["Zo\xC3\xAB/mixed\xC3\xBC.jpg"].hint, HasSubstr("another Unicode form"));
  EXPECT_EQ(bad["none.jpg"].reason, "does not exist");
  EXPECT_EQ(bad["none.jpg"].hint, "");
}

// Neither has all of them: either --images would lose one.
TEST_F(LookAlikes, AFolderThatLacksImagesIsNotProposed) {
  for (const char* there : {"cam1/1.jpg", "cam1/2.jpg", "cam2/1.jpg", "cam2/3.jpg"}) file(there);
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) image(name);
  for (const BadImage on_bad_image : {BadImage::kQuarantine, BadImage::kFail}) {
    PackOptions given = options();
    given.on_bad_image = on_bad_image;
    try {
      pack(given);
      FAIL() << "packed";
    } catch (const Error& error) {
      EXPECT_EQ(error.hint(), "correct the folders of the file names in the annotations");
    }
  }
  good();
  pack_set();
  EXPECT_EQ(quarantined()["1.jpg"].reason,
            "does not exist; the folder has cam1/1.jpg and 1 more of this name");
}

// Those that are nowhere do not count.
TEST_F(LookAlikes, AFolderThatHasAllImagesIsProposed) {
  for (const char* there : {"deep/1.jpg", "deep/2.jpg"}) file(there);
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) image(name);
  try {
    pack_set();
    FAIL() << "packed";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "give --images " + folder_ / "images/deep");
  }
}

TEST_F(LookAlikes, NamesThatLeadOutOfTheFolderAreNoException) {
  good();
  file("a.jpg");
  image("/home/somebody/photos/a.jpg");
  pack_set();
  const QuarantinedImage bad = quarantined()["/home/somebody/photos/a.jpg"];
  EXPECT_EQ(bad.kind, "name");
  EXPECT_EQ(bad.hint, "remove \"/home/somebody/photos/\" from the file names in the annotations");
}

TEST_F(LookAlikes, ASharedCureIsOneLineOfTheSummary) {
  good();
  for (const char* name : {"a.png", "b.tif", "c.webp"}) {
    file(name, encode_png(colourful(40, 30)));
    image(name);
  }
  const PackResult result = pack_set();
  EXPECT_THAT(describe_result(folder_ / "set", result),
              HasSubstr("  hint          --convert packs PNG, TIFF and WebP images (3 images)\n"));
}

TEST_F(LookAlikes, WhereNoImageIsUsableTheErrorHasTheCure) {
  for (const char* name : {"a.png", "b.png"}) {
    file(name, encode_png(colourful(40, 30)));
    image(name);
  }
  image("none.jpg");
  try {
    pack_set();
    FAIL() << "packed without images";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(error.hint(), "--convert packs PNG, TIFF and WebP images");
  }
}

TEST_F(LookAlikes, TheFirstBadImageEndsWithItsCure) {
  good();
  file("A.jpg");
  image("a.jpg");
  PackOptions strict = options();
  strict.on_bad_image = BadImage::kFail;
  try {
    pack(strict);
    FAIL() << "a missing image was no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the folder has A.jpg"));
    EXPECT_THAT(error.hint(), HasSubstr("capital letters"));
  }
}

TEST_F(LookAlikes, OnlyImagesAreProposed) {
  good();
  file("a.xml", "<annotation/>");
  file("b.json", "{}");
  file("b.JFIF");
  for (const char* name : {"a.jpg", "b.jpg"}) image(name);
  pack_set();
  auto bad = quarantined();
  EXPECT_EQ(bad["a.jpg"].reason, "does not exist");
  EXPECT_EQ(bad["b.jpg"].reason, "does not exist; the folder has b.JFIF");
}

TEST_F(LookAlikes, SizesThatExifExchangesSayHowToApplyIt) {
  good();
  const Image stored = colourful(40, 30);
  const std::vector<std::uint16_t> samples(stored.rgb.begin(), stored.rgb.end());
  file("t.tif", encode_tiff({.width = 40, .height = 30, .orientation = 6}, samples));
  image("t.tif", 30, 40);
  file("u.jpg");
  image("u.jpg", 30, 40);
  PackOptions converting = options();
  converting.convert = true;
  pack(converting);
  auto bad = quarantined();
  EXPECT_EQ(bad["t.tif"].reason,
            "the image is 40x30, the annotations say 30x40, its size after the EXIF rotation");
  EXPECT_THAT(bad["t.tif"].hint, HasSubstr("--exif apply"));
  EXPECT_EQ(bad["u.jpg"].reason, "the image is 40x30, the annotations say 30x40");
  EXPECT_EQ(bad["u.jpg"].hint, "");
}

}  // namespace
}  // namespace retina
