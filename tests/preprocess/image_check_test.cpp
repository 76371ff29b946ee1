// Running coco-pack again when its images are others, elsewhere or gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/preprocess/packed_before.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr const char* kImagesChanged = ": the input images have changed since the set was packed: ";

TEST_F(Continue, OtherImagesAreRefusedByTheirContent) {
  std::filesystem::copy(folder_ / "images", folder_ / "others",
                        std::filesystem::copy_options::recursive);
  PackOptions options = coco_.options("set");
  options.images = folder_ / "others";
  pack_interrupted(2);
  EXPECT_EQ(pack(options).reused_shards, 2U) << "a copy: the same content";
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
  std::filesystem::remove_all(folder_ / "set");

  const std::string changed = std::filesystem::relative(first_image(), folder_ / "images");
  std::string jpeg = read_file(first_image());
  jpeg[jpeg.size() / 2] = static_cast<char>(jpeg[jpeg.size() / 2] ^ 1);  // of the same size
  write_file_atomically(folder_ / "others/" + changed, jpeg);
  pack_interrupted(2);
  std::string message;
  EXPECT_EQ(pack_error(options, &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr(cat(kImagesChanged, changed, " is not the file that was packed")));
  EXPECT_EQ(pack(coco_.options("set")).reused_shards, 2U) << "nothing was lost";
  pack_interrupted(2);
  options.overwrite = true;
  EXPECT_EQ(pack(options).reused_shards, 0U);
  EXPECT_NE(folder_content(folder_ / "set"), whole_);

  options.overwrite = false;
  options.output = folder_ / "whole";
  EXPECT_EQ(pack_error(options, &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr(cat(kImagesChanged, changed, " is now a different image")));
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

TEST_F(Continue, AFinishedSetWithoutItsImagesOpensNoShard) {
  const std::size_t shard_count = read_manifest(folder_ / "whole").shards.size();
  const std::string shard = folder_ / "whole/" + shard_file_name(0, shard_count);
  std::string bytes = read_file(shard);
  std::fill(bytes.begin(), bytes.begin() + 4096, '#');
  write_file_atomically(shard, bytes);
  std::filesystem::remove_all(folder_ / "images/a");
  std::filesystem::remove_all(folder_ / "images/b");
  EXPECT_TRUE(pack(coco_.options("whole")).was_finished);
}

TEST_F(Continue, AnImageThatWasPutBackIsNoticedByAFinishedSet) {
  std::filesystem::rename(first_image(), folder_ / "aside.jpg");
  const PackOptions options = coco_.options("set");
  EXPECT_EQ(pack(options).manifest.counts.quarantined, 1);
  EXPECT_TRUE(pack(options).was_finished) << "it is still missing";
  std::filesystem::rename(folder_ / "aside.jpg", first_image());
  std::string message;
  EXPECT_EQ(pack_error(options, &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr(cat(kImagesChanged, "1 quarantined image can be used now (")));
  PackOptions overwriting = options;
  overwriting.overwrite = true;
  pack(overwriting);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

TEST_F(Continue, AnImageThatWasPutBackIsPackedByTheRunThatContinues) {
  pack_interrupted(2);
  const PackJournal journal(folder_ / "set", read_manifest(folder_ / "whole"), false);
  // The second shard's run had left its first image out.
  FinishedShard second = journal.read().at(1);
  const std::int64_t id =
      ShardSet(folder_ / "whole").index()[journal.read().at(0).next.image].image_id;
  second.quarantined = {
      {.image_id = id, .file_name = "x.jpg", .kind = "missing", .reason = "does not exist"}};
  second.sources.erase(second.sources.begin());
  journal.add(1, second);
  EXPECT_EQ(pack(coco_.options("set")).reused_shards, 1U);
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
      std::string message;
      EXPECT_EQ(pack_error(options, &message), unmounted ? ErrorKind::kIo : ErrorKind::kNoInput);
      EXPECT_THAT(message, HasSubstr(unmounted ? "images: the image folder is gone"
                                               : "images: does not exist"));
      EXPECT_EQ(folder_content(folder_ / "set/.packing"), shards);
    }
  }
  std::filesystem::remove(folder_ / "images");
  std::filesystem::rename(folder_ / "aside", folder_ / "images");
  EXPECT_EQ(pack(coco_.options("set")).reused_shards, 2U);
}

TEST_F(Continue, AnImageThatHasGoneIsNamedAndOverwriteGoesOnWithoutIt) {
  pack_interrupted(2);
  const std::string gone = std::filesystem::relative(first_image(), folder_ / "images");
  std::filesystem::remove(first_image());
  PackOptions options = coco_.options("set");
  std::string message;
  EXPECT_EQ(pack_error(options, &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr(cat(kImagesChanged, gone, " is no longer there")));
  EXPECT_TRUE(path_exists(folder_ / "set/.packing/shard-00001.lmdb"));
  options.overwrite = true;
  EXPECT_EQ(pack(options).manifest.counts.quarantined, 1);
}

TEST_F(Continue, AShardWhoseNoteDoesNotTellOfItsImagesIsPackedAgainAndTheLogSaysSo) {
  pack_interrupted(2);
  const PackJournal journal(folder_ / "set", read_manifest(folder_ / "whole"), false);
  FinishedShard second = journal.read().at(1);
  second.sources.clear();
  journal.add(1, second);
  testing::internal::CaptureStderr();
  EXPECT_EQ(pack(coco_.options("set")).reused_shards, 1U);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("repacking from shard 1: the note of "
                        "this shard does not list its image files"));
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

}  // namespace
}  // namespace retina
