// Running coco-pack again: finished, interrupted, with other options, at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "preprocess/pack_journal.h"
#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/stop_signal.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

class Continue : public testing::Test {
 protected:
  Continue() {
    coco_.write();
    pack(coco_.options("whole"));
    whole_ = folder_content(folder_ / "whole");
  }

  // Packs until `shards` shards are finished, as a killed process leaves them. (There are no bad
  // images: as many images as records are done.)
  void pack_interrupted(std::size_t shards, bool overwrites = false) {
    PackOptions options = coco_.options("set");
    pack(options);
    const Manifest manifest = read_manifest(options.output);
    // Undo the publishing: the journal of a run that was killed after its last shard.
    const PackJournal journal(options.output, identity_of(manifest),
                              overwrites ? options.images : "");
    std::size_t next_image = 0;
    for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
      const std::string path = options.output + "/" + manifest.shards[i].file.name;
      if (i < shards) {
        std::filesystem::rename(path, journal.shard_path(i));
        next_image += static_cast<std::size_t>(manifest.shards[i].record_count);
        FinishedShard note{.shard = manifest.shards[i], .next_image = next_image};
        note.shard.file.name.clear();
        journal.add(i, note);
      } else {
        std::filesystem::remove(path);
      }
    }
    for (const char* name : {kManifestFile, kIndexFile, kQuarantineFile}) {
      std::filesystem::remove(options.output + "/" + name);
    }
  }

  ErrorKind pack_error(const PackOptions& options, std::string* message = nullptr) {
    try {
      pack(options);
    } catch (const Error& error) {
      if (message != nullptr) *message = error.what();
      return error.kind();
    }
    throw std::logic_error("no error was thrown");
  }

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 40};
  std::map<std::string, std::string> whole_;
};

TEST_F(Continue, AFinishedSetIsLeftAlone) {
  const auto time = std::filesystem::last_write_time(folder_ / "whole/manifest.json");
  EXPECT_TRUE(pack(coco_.options("whole")).was_finished);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "whole/manifest.json"), time);
}

TEST_F(Continue, AnInterruptedRunReusesItsShardsAndGivesTheSameBytes) {
  for (const std::size_t shards : {std::size_t{1}, std::size_t{2}}) {
    pack_interrupted(shards);
    const PackResult result = pack(coco_.options("set"));
    EXPECT_EQ(result.reused_shards, shards);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
    std::filesystem::remove_all(folder_ / "set");
  }
}

TEST_F(Continue, ARunThatWasKilledWhilePublishingGivesTheSameBytes) {
  const std::size_t all = read_manifest(folder_ / "whole").shards.size();
  for (std::size_t renamed = 0; renamed <= all; ++renamed) {
    pack_interrupted(all);
    for (std::size_t i = 0; i < renamed; ++i) {
      std::filesystem::rename(cat(folder_ / "set", "/.packing/shard-0000", i, ".lmdb"),
                              folder_ / "set/" + shard_file_name(i, all));
    }
    EXPECT_EQ(pack(coco_.options("set")).reused_shards, all);
    EXPECT_EQ(folder_content(folder_ / "set"), whole_);
    std::filesystem::remove_all(folder_ / "set");
  }
}

TEST_F(Continue, ADamagedShardOrNoteIsDoneAgain) {
  for (const char* name : {"shard-00001.lmdb", "shard-00001.json"}) {
    pack_interrupted(2);
    const std::string path = folder_ / "set/.packing/" + name;
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
  std::string message;
  EXPECT_EQ(pack_error(options, &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr("shard-size (there: 100000, now: 200000)"));
  EXPECT_THAT(message, HasSubstr("max-side (there: 0, now: 50)"));
  EXPECT_EQ(folder_content(folder_ / "whole"), whole_);
  pack_interrupted(1);
  options.output = folder_ / "set";
  EXPECT_EQ(pack_error(options), ErrorKind::kConfig) << "an interrupted set is protected too";
}

TEST_F(Continue, OtherAnnotationsAreRefused) {
  SmallCoco{.folder = folder_.path(), .good_count = 39}.write();
  std::string message;
  EXPECT_EQ(pack_error(coco_.options("whole"), &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr("annotations"));
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

TEST_F(Continue, AnInterruptedOverwriteGoesOn) {
  PackOptions options = coco_.options("set");
  options.overwrite = true;
  pack_interrupted(2, /*overwrites=*/true);
  EXPECT_EQ(pack(options).reused_shards, 2U);
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
  EXPECT_FALSE(pack(options).was_finished) << "a finished set is replaced";
  std::filesystem::remove_all(folder_ / "set");
  pack_interrupted(2);
  EXPECT_EQ(pack(options).reused_shards, 0U) << "another run's shards";
  std::filesystem::remove_all(folder_ / "set");
  pack_interrupted(2, /*overwrites=*/true);
  std::filesystem::rename(folder_ / "images", folder_ / "moved");
  options.images = folder_ / "moved";
  EXPECT_EQ(pack(options).reused_shards, 0U) << "other images";
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

TEST_F(Continue, NoErrorRemovesFinishedShards) {
  pack_interrupted(2);
  const std::string shard = folder_ / "set/.packing/shard-00001.lmdb";
  const std::string identity = folder_ / "set/.packing/options.json";
  const std::string whole = read_file(identity);
  write_file_atomically(identity, "damaged");
  std::string message;
  EXPECT_EQ(pack_error(coco_.options("set"), &message), ErrorKind::kData);
  EXPECT_THAT(message, HasSubstr("finished shards are there"));
  ASSERT_TRUE(path_exists(shard));
  write_file_atomically(identity, whole);

  const PackJournal journal(folder_ / "set", identity_of(read_manifest(folder_ / "whole")), "");
  FinishedShard first = journal.read().at(0);
  first.quarantined = {{.image_id = 1, .file_name = "a.jpg", .kind = "damaged", .reason = "cut"}};
  journal.add(0, first);
  PackOptions strict = coco_.options("set");
  strict.on_bad_image = "fail";
  EXPECT_EQ(pack_error(strict, &message), ErrorKind::kData);
  EXPECT_THAT(message, HasSubstr("was left out by the run that this one continues"));
  EXPECT_TRUE(path_exists(shard));
}

TEST_F(Continue, TwoPackersDoNotShareAFolder) {
  std::filesystem::create_directories(folder_ / "set");
  const FolderLock lock(folder_ / "set");
  std::string message;
  EXPECT_EQ(pack_error(coco_.options("set"), &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr("another process"));
}

TEST_F(Continue, AStopSignalEndsTheRunInterrupted) {
  set_stop_signal(SIGTERM);
  EXPECT_EQ(pack_error(coco_.options("set")), ErrorKind::kInterrupted);
  set_stop_signal(0);
  pack(coco_.options("set"));
  EXPECT_EQ(folder_content(folder_ / "set"), whole_);
}

}  // namespace
}  // namespace retina
