// Running coco-pack again when its images are others, elsewhere or gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/preprocess/packed_before.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr const char* kImagesChanged = ": the input images have changed since the set was packed: ";

TEST_F(Continue, OtherImagesAreRefusedByTheirContent) {
  std::filesystem::copy(folder_ / "images", folder_ / "others",
                        std::filesystem::copy_options::recursive);
  PackOptions options = coco_.options("whole");
  options.images = folder_ / "others";
  EXPECT_TRUE(pack(options).was_finished) << "a copy: the same content";

  const std::string changed = std::filesystem::relative(first_image(), folder_ / "images");
  std::string jpeg = read_file(first_image());
  jpeg[jpeg.size() / 2] = static_cast<char>(jpeg[jpeg.size() / 2] ^ 1);  // of the same size
  write_file_atomically(folder_ / "others/" + changed, jpeg);
  EXPECT_THAT(pack_refusal(options, ErrorKind::kConfig),
              HasSubstr(cat(kImagesChanged, changed, " is now a different image")));
  EXPECT_EQ(folder_content(folder_ / "whole"), whole_);
}

TEST_F(Continue, AFinishedSetDoesNotNeedItsImages) {
  SmallCoco{.folder = folder_.path(), .with_bad_images = true}.write();
  const PackOptions options = coco_.options("set");
  EXPECT_EQ(pack(options).manifest.counts.quarantined, 7);
  std::filesystem::remove_all(folder_ / "images/a");
  EXPECT_TRUE(pack(options).was_finished);
  std::filesystem::remove_all(folder_ / "images");
  EXPECT_TRUE(pack(options).was_finished) << "the folder has gone";
  make_folder(folder_ / "images");
  EXPECT_TRUE(pack(options).was_finished) << "as a mount leaves it";
}

TEST_F(Continue, AnImageThatWasPutBackIsNoticedByAFinishedSet) {
  std::filesystem::rename(first_image(), folder_ / "aside.jpg");
  const PackOptions options = coco_.options("set");
  EXPECT_EQ(pack(options).manifest.counts.quarantined, 1);
  EXPECT_TRUE(pack(options).was_finished) << "it is still missing";
  std::filesystem::rename(folder_ / "aside.jpg", first_image());
  EXPECT_THAT(pack_refusal(options, ErrorKind::kConfig),
              HasSubstr(cat(kImagesChanged, "1 quarantined image can be used now (")));
  PackOptions overwriting = options;
  overwriting.overwrite = true;
  pack(overwriting);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

// Gone, or unmounted: an empty folder is left.
TEST_F(Continue, AnImageFolderThatHasGoneCostsNoFinishedShard) {
  pack_interrupted(2);
  const auto shards = folder_content(folder_ / "set/.packing");
  std::filesystem::rename(folder_ / "images", folder_ / "aside");
  for (const bool unmounted : {false, true}) {
    if (unmounted) make_folder(folder_ / "images");
    for (const bool overwrite : {false, true}) {
      PackOptions options = coco_.options("set");
      options.overwrite = overwrite;
      EXPECT_THAT(
          pack_refusal(options, unmounted ? ErrorKind::kIo : ErrorKind::kNoInput),
          HasSubstr(unmounted ? "images: the image folder is gone" : "images: does not exist"));
      EXPECT_EQ(folder_content(folder_ / "set/.packing"), shards);
    }
  }
  std::filesystem::remove(folder_ / "images");
  std::filesystem::rename(folder_ / "aside", folder_ / "images");
  EXPECT_EQ(pack(coco_.options("set")).reused_shards, 2U);
}

}  // namespace
}  // namespace retina
