// Names in the annotations that are not those of the files, and the hints of packing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "preprocess/packer.h"
#include "preprocess/summary.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "shared/shard/quarantine.h"
#include "tests/preprocess/small_coco.h"
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
  for (const char* there : {"IMG_1.JPG", "b.jpg", "cam1/c.jpg", "cam2/c.jpg", "d.xml",
                            ".ipynb_checkpoints/none.jpg", "Zoe\xCC\x88/mixed\xC3\xBC.jpg"}) {
    file(there);
  }
  const std::map<std::string, std::string> found{
      {"img_1.jpg", "; the folder has IMG_1.JPG"},
      {"b.png", "; the folder has b.jpg"},
      {"c.jpg", "; the folder has cam1/c.jpg and 1 more of this name"},
      {"d.jpg", ""},
      {"none.jpg", ""},
      {"Zo\xC3\xAB/mixed\xC3\xBC.jpg", "; the folder has Zoe\xCC\x88/mixed\xC3\xBC.jpg"}};
  for (const auto& [name, ending] : found) image(name);
  PackOptions strict = options();
  strict.on_bad_image = BadImage::kFail;
  EXPECT_THAT(pack_refusal(strict), HasSubstr("does not exist"));
  pack_set();
  for (const auto& [name, bad] : quarantined()) {
    EXPECT_EQ(bad.reason, "does not exist" + found.at(name)) << name;
    EXPECT_EQ(bad.hint.empty(), found.at(name).empty()) << name;
  }
}

// Images that are nowhere do not count.
TEST_F(LookAlikes, AFolderThatHasNearlyAllImagesIsProposed) {
  for (const char* there : {"deep/1.jpg", "deep/2.jpg"}) file(there);
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) image(name);
  EXPECT_THAT(pack_refusal(options()), HasSubstr("; give --images " + folder_ / "images/deep"));
  good();
  pack_set();
  EXPECT_THAT(quarantined()["1.jpg"].hint, HasSubstr("correct --images or the file names"));
}

TEST_F(LookAlikes, ASharedHintIsOneLineOfTheSummaryAndThatOfASetWithoutImages) {
  for (const char* name : {"a.png", "b.tif", "c.webp"}) {
    file(name, encode_png(colourful(40, 30)));
    image(name);
  }
  EXPECT_THAT(pack_refusal(options()), HasSubstr("; --convert packs PNG, TIFF and WebP images"));
  good();
  EXPECT_THAT(describe_result(folder_ / "set", pack_set()),
              HasSubstr("  hint          --convert packs PNG, TIFF and WebP images (3 images)\n"));
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
