// Running coco-pack again: finished, interrupted, with other options, at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <optional>

#include "shared/base/output.h"
#include "shared/base/signals.h"
#include "tests/preprocess/packed_before.h"
#include "tests/preprocess/small_classes.h"

namespace retina {
namespace {

using testing::HasSubstr;

TEST_F(Continue, AnInterruptedRunReusesItsShardsAndGivesTheSameBytes) {
  for (const std::size_t shards : {std::size_t{1}, std::size_t{2}}) {
    pack_interrupted(shards);
    const PackResult result = pack(coco_.options("set"));
    EXPECT_EQ(result.reused_shards, shards);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
    std::filesystem::remove_all(folder_ / "set");
  }
}

TEST_F(Continue, ARunThatWasKilledWhilePublishingIsPublishedByTheNext) {
  const std::size_t all = read_manifest(folder_ / "whole").shards.size();
  for (const bool over_another_set : {false, true}) {
    for (std::size_t renamed = 0; renamed <= all; ++renamed) {
      if (over_another_set) {
        PackOptions old = coco_.options("set");
        old.shard_size_bytes = 1 << 30;
        pack(old);
        if (renamed > 0) std::filesystem::remove(folder_ / "set/manifest.json");
      }
      pack_unpublished();
      for (std::size_t i = 0; i < renamed; ++i) {
        std::filesystem::rename(finished_shard_path(folder_ / "set", i),
                                folder_ / "set/" + shard_file_name(i, all));
      }
      PackOptions options = coco_.options("set");
      options.overwrite = over_another_set;
      EXPECT_TRUE(pack(options).was_finished);
      EXPECT_EQ(folder_content(folder_ / "set"), whole_);
      std::filesystem::remove_all(folder_ / "set");
    }
  }
}

TEST_F(Continue, AnUnpublishedSetWithAMissingOrDamagedFileIsNotPublished) {
  for (const char* name : {"shard-00001/shard-00000-of-00001.lmdb", "index.bin", "manifest.json"}) {
    for (const bool missing : {false, true}) {
      pack_unpublished();
      const std::string path = folder_ / "set/.packing/" + name;
      std::string bytes = read_file(path);
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
      write_file_atomically(path, bytes);
      if (missing) std::filesystem::remove(path);
      EXPECT_FALSE(pack(coco_.options("set")).was_finished) << name;
      EXPECT_EQ(folder_content(folder_ / "set"), whole_) << name;
      std::filesystem::remove_all(folder_ / "set");
    }
  }
}

TEST_F(Continue, ADamagedShardIsDoneAgain) {
  for (const char* name : {"shard-00000-of-00001.lmdb", "index.bin", "manifest.json"}) {
    pack_interrupted(3);
    const std::string path = folder_ / "set/.packing/shard-00001/" + name;
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    write_file_atomically(path, bytes);
    EXPECT_EQ(pack(coco_.options("set")).reused_shards, 1U);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
    std::filesystem::remove_all(folder_ / "set");
  }
}

TEST_F(Continue, OtherOptionsAreRefusedByName) {
  PackOptions options = coco_.options("whole");
  options.shard_size_bytes = 200'000;
  options.max_side_px = 50;
  EXPECT_THAT(pack_refusal(options, ErrorKind::kConfig),
              AllOf(HasSubstr("shard-size (was 100000, now 200000)"),
                    HasSubstr("max-side (was 0, now 50)")));
  EXPECT_EQ(folder_content(folder_ / "whole"), whole_);
  pack_interrupted(1);
  options.output = folder_ / "set";
  EXPECT_NE(pack_refusal(options, ErrorKind::kConfig), "packed")
      << "an interrupted set is protected too";
}

TEST_F(Continue, PathsAndThreadsMayChange) {
  std::filesystem::rename(folder_ / "images", folder_ / "moved");
  std::filesystem::rename(folder_ / "annotations.json", folder_ / "moved.json");
  PackOptions options = coco_.options("whole");
  options.images = folder_ / "moved";
  options.annotations = folder_ / "moved.json";
  options.threads = 7;
  EXPECT_TRUE(pack(options).was_finished);
}

TEST_F(Continue, OverwriteReplacesASetOfOtherOptions) {
  PackOptions options = coco_.options("whole");
  options.shard_size_bytes = 1 << 30;
  options.overwrite = true;
  EXPECT_FALSE(pack(options).was_finished);
  EXPECT_EQ(read_manifest(folder_ / "whole").shards.size(), 1U);
  EXPECT_FALSE(path_exists(folder_ / "whole/shard-00000-of-00004.lmdb"));
  options.shard_size_bytes = 100'000;
  pack(options);
  EXPECT_EQ(folder_content(folder_ / "whole"), whole_);
}

TEST_F(Continue, AnInterruptedOverwriteGoesOnBesideTheOldSet) {
  PackOptions options = coco_.options("set");
  options.shard_size_bytes = 1 << 30;
  pack(options);
  const auto old = folder_content(folder_ / "set");
  pack_interrupted(2);
  EXPECT_TRUE(pack(options).was_finished) << "the old set is whole";
  options = coco_.options("set");
  EXPECT_NE(pack_refusal(options, ErrorKind::kConfig), "packed");
  options.overwrite = true;
  EXPECT_EQ(pack(options).reused_shards, 2U);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
  EXPECT_FALSE(pack(options).was_finished) << "a finished set is replaced";
}

TEST_F(Continue, AnOverwriteThatFailsLeavesTheOldSet) {
  PackOptions options = coco_.options("set");
  options.shard_size_bytes = 1 << 30;
  pack(options);
  const auto old = folder_content(folder_ / "set");
  options = coco_.options("set");
  options.overwrite = true;
  options.images = folder_ / "elsewhere";
  make_folder(options.images);
  EXPECT_NE(pack_refusal(options), "packed") << "no image is there";
  EXPECT_EQ(folder_content(folder_ / "set"), old);

  options = coco_.options("set");
  options.overwrite = true;
  options.on_bad_image = BadImage::kFail;
  std::filesystem::remove(first_image());
  EXPECT_NE(pack_refusal(options), "packed");
  EXPECT_EQ(folder_content(folder_ / "set"), old);
}

// What is wrong with a finished set is said with the way out.
TEST_F(Continue, ADamagedQuarantineOrShardOfAFinishedSetIsToBeBroughtBackOrOverwritten) {
  SmallCoco{.folder = folder_.path(), .with_bad_images = true}.write();
  const PackOptions options = coco_.options("set");
  const std::size_t shard_count = pack(options).manifest.shards.size();
  for (const auto& [name, from, to] :
       {std::array<std::string, 3>{kQuarantineFile, "\"image_id\":90", "\"image_id\":80"},
        std::array<std::string, 3>{kQuarantineFile, "\"kind\"", "\"kin\"d"},
        std::array<std::string, 3>{shard_file_name(0, shard_count), "RREC", "REEC"}}) {
    const std::string path = folder_ / "set/" + name, whole = read_file(path);
    std::string bytes = whole;
    ASSERT_NE(bytes.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; ++at) {
      bytes.replace(at, from.size(), to);
    }
    write_file_atomically(path, bytes);
    EXPECT_THAT(pack_refusal(options),
                HasSubstr("; restore it, or pack it again with --overwrite"));
    write_file_atomically(path, whole);
  }
}

TEST_F(Continue, AnErrorRemovesNoFinishedShard) {
  pack_interrupted(2);
  const auto finished = folder_content(folder_ / "set");
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_ / "images")) {
    if (file.is_regular_file()) write_plain(file.path(), "");
  }
  PackOptions strict = coco_.options("set");
  strict.on_bad_image = BadImage::kFail;
  EXPECT_NE(pack_refusal(strict), "packed");
  auto left = folder_content(folder_ / "set");
  left.erase(".lock");
  EXPECT_EQ(left, finished);
}

TEST_F(Continue, ADamagedSetOfOursMayBeOverwritten) {
  const std::string manifest = folder_ / "whole/manifest.json";
  const std::string text = read_file(manifest);
  std::string edited = text;
  edited[text.size() / 2] = '#';
  for (const std::optional<std::string>& left :
       {std::optional<std::string>(edited), std::optional<std::string>(text.substr(0, 400)),
        std::optional<std::string>(text.substr(0, 10)), std::optional<std::string>(""),
        std::optional<std::string>()}) {
    SCOPED_TRACE(left ? cat("manifest.json of ", left->size(), " bytes") : "no manifest.json");
    if (left) {
      write_file_atomically(manifest, *left);
    } else {
      std::filesystem::remove(manifest);
    }
    const auto before = folder_content(folder_ / "whole");
    PackOptions options = coco_.options("whole");
    EXPECT_THAT(pack_refusal(options, left ? ErrorKind::kData : ErrorKind::kNoInput),
                HasSubstr("; restore it, or pack it again with --overwrite"));
    EXPECT_EQ(folder_content(folder_ / "whole"), before);
    options.overwrite = true;
    pack(options);
    EXPECT_EQ(folder_content(folder_ / "whole"), whole_);
  }
}

TEST_F(Continue, AStopSignalEndsTheRunInterrupted) {
  set_stop_signal(SIGTERM);
  EXPECT_NE(pack_refusal(coco_.options("set"), ErrorKind::kInterrupted), "packed");
  set_stop_signal(0);
  pack(coco_.options("set"));
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

TEST(ContinueClasses, ThreadsAndInterruptionsGiveTheSameBytes) {
  const TestFolder folder;
  const SmallFolders folders{folder.path()};
  const SmallCifar10 cifar10{folder.path()};
  folders.write();
  cifar10.write();
  for (const PackOptions& options : {folders.options("whole"), cifar10.options("whole10")}) {
    pack(options);
    const auto whole = folder_content(options.output);
    PackOptions other = options;
    other.output = folder / "set";
    other.threads = 7;
    for (const std::size_t shards : {0, 1, 2}) {
      if (shards > 0) leave_finished(ShardSet(options.output), other.output, shards);
      EXPECT_EQ(pack(other).reused_shards, shards);
      EXPECT_EQ(folder_content(other.output), whole);
      std::filesystem::remove_all(other.output);
    }
  }
}

}  // namespace
}  // namespace retina
