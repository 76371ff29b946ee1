// coco-pack --part and --merge: a set of all images, in the order that it has without parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "preprocess/merge.h"
#include "preprocess/output_folder.h"
#include "preprocess/packer.h"
#include "preprocess/verify.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/output.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Parts : public testing::Test {
 protected:
  Parts() { coco_.write(); }

  static PackOptions part_of(PackOptions options, std::size_t number, std::size_t count) {
    options.part = PackPart{.number = number, .count = count}.text();
    return options;
  }
  static void pack_parts(const PackOptions& options, std::size_t count) {
    // In another order: no part needs another.
    for (std::size_t number = count; number >= 1; --number) pack(part_of(options, number, count));
  }
  static PackResult merge(const PackOptions& options) {
    return merge_parts({.output = options.output, .overwrite = options.overwrite});
  }

  // Packs without parts and in parts and expects the same records in the same order, in the shards
  // of the parts.
  void expect_a_whole_set(PackOptions options, const std::vector<std::size_t>& counts) {
    options.output = folder_ / "whole";
    pack(options);
    for (const std::size_t count : counts) {
      SCOPED_TRACE(cat(count, " parts"));
      options.output = folder_ / cat("set", count);
      pack_parts(options, count);
      std::vector<std::uint64_t> of_parts, of_set;  // hashes of the shards
      for (std::size_t number = 1; number <= count; ++number) {
        const std::string part = part_folder(options.output, {.number = number, .count = count});
        for (const auto& shard : read_manifest(part).shards) of_parts.push_back(shard.file.xxh3);
      }
      for (const auto& shard : merge(options).manifest.shards) of_set.push_back(shard.file.xxh3);
      EXPECT_EQ(of_set, of_parts);
      EXPECT_FALSE(path_exists(journal_folder(options.output)));
      expect_the_same_records(ShardSet(options.output), ShardSet(folder_ / "whole"));
      EXPECT_EQ(verify_shards({.folder = options.output}).problem_count, 0);
      fs::remove_all(options.output);
    }
    fs::remove_all(folder_ / "whole");
  }

  static void expect_the_same_records(const ShardSet& set, const ShardSet& whole) {
    EXPECT_EQ(set.manifest().counts, whole.manifest().counts);
    EXPECT_EQ(set.manifest().label_counts, whole.manifest().label_counts);
    EXPECT_EQ(set.manifest().box_sizes, whole.manifest().box_sizes);
    EXPECT_EQ(set.manifest().options, whole.manifest().options);
    EXPECT_EQ(set.manifest().notes, whole.manifest().notes);
    EXPECT_EQ(set.read_quarantine(), whole.read_quarantine());
    ASSERT_EQ(set.index().size(), whole.index().size());
    for (std::size_t i = 0; i < set.index().size(); ++i) {
      EXPECT_EQ(encode_record(set.read(i)), encode_record(whole.read(i))) << i;
    }
  }

  // What merging `count` undisturbed parts gives.
  std::map<std::string, std::string> merged(std::size_t count) {
    const PackOptions options = coco_.options("calm");
    pack_parts(options, count);
    merge(options);
    return folder_content(folder_ / "calm");
  }

  std::string refusal(ErrorKind kind, const PackOptions& options) const {
    return refusal_of(kind, [&] { pack(options); });
  }

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 20, .with_bad_images = true};
};

TEST_F(Parts, HoldEachImageOnceInTheOrderOfOne) {
  PackOptions options = coco_.options("set");
  options.shard_size_bytes = 64 << 10;
  expect_a_whole_set(options, {1, 5});
  options.shard_size_bytes = 1 << 30;
  expect_a_whole_set(options, {2});
  SmallCoco{.folder = folder_.path(), .good_count = 3}.write();
  expect_a_whole_set(options, {5});
}

TEST_F(Parts, OfTilesSmallerImagesAndClassesHoldThemOnce) {
  PackOptions options = coco_.options("set");
  options.max_side_px = 60;
  options.shard_size_bytes = 64 << 10;
  expect_a_whole_set(options, {2});
  options = coco_.options("set");
  options.tile_px = 48;
  options.tile_empty = 0.5;
  options.encoding = ImageEncoding::kRaw;
  expect_a_whole_set(options, {3});
  SmallFolders folders{folder_ / "f"};
  folders.write();
  expect_a_whole_set(folders.options("set"), {3});
  SmallCifar10 cifar10{folder_ / "c"};
  cifar10.write();
  expect_a_whole_set(cifar10.options("set"), {2});
}

TEST_F(Parts, OfBothSidesOfASplitAreTwoSets) {
  PackOptions options = coco_.options("whole");
  options.split = 0.7;
  for (const PackOptions& side : options.sets()) pack(side);
  options.output = folder_ / "set";
  for (const PackOptions& side : options.sets()) {
    pack_parts(side, 2);
    merge(side);
    expect_the_same_records(ShardSet(side.output),
                            ShardSet(folder_ / "whole/" + side.side->folder()));
  }
}

TEST_F(Parts, APartPackedAgainIsLeftAlone) {
  const PackOptions options = coco_.options("set");
  pack_parts(options, 3);
  PackOptions again = part_of(options, 2, 3);
  EXPECT_TRUE(pack(again).was_finished);
  again.overwrite = true;
  EXPECT_TRUE(pack(again).was_finished);
  merge(options);
  EXPECT_TRUE(pack(part_of(options, 2, 3)).was_finished) << "the set is finished";
  EXPECT_TRUE(pack(options).was_finished);
  EXPECT_TRUE(merge(options).was_finished);
}

TEST_F(Parts, ARemovedOrDamagedPartIsPackedAgain) {
  const PackOptions options = coco_.options("set");
  pack_parts(options, 3);
  const std::string folder = part_folder(options.output, {.number = 2, .count = 3});
  const std::string shard = folder + "/" + read_manifest(folder).shards[0].file.name;
  std::string bytes = read_file(shard);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file_atomically(shard, bytes);
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { merge(options); }),
              AllOf(HasSubstr("part 2/3: "), HasSubstr("is damaged")));
  fs::remove(shard);
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { merge(options); }), HasSubstr("part 2/3: "));
  PackOptions again = part_of(options, 2, 3);
  again.overwrite = true;
  EXPECT_FALSE(pack(again).was_finished);
  merge(options);
  EXPECT_EQ(folder_content(folder_ / "set"), merged(3));
}

TEST_F(Parts, MissingOnesAreNamed) {
  const PackOptions options = coco_.options("set");
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { merge(options); }),
              HasSubstr("holds no parts to merge"));
  EXPECT_FALSE(path_exists(options.output));
  pack(part_of(options, 3, 4));
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { merge(options); }),
              HasSubstr("3 of 4 parts are not packed (1, 2, 4)"));
}

TEST_F(Parts, WithOtherNumbersOrOptionsAreRefused) {
  const PackOptions options = coco_.options("set");
  pack(part_of(options, 1, 3));
  EXPECT_THAT(refusal(ErrorKind::kConfig, part_of(options, 2, 4)),
              HasSubstr("is packed in 3 parts (got 4)"));
  EXPECT_THAT(refusal(ErrorKind::kConfig, options), HasSubstr("is packed in 3 parts"));
  pack(part_of(options, 3, 3));
  PackOptions other = part_of(options, 2, 3);
  other.max_side_px = 50;
  pack(other);
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { merge(options); }),
              AllOf(HasSubstr("part 2/3 was packed with"), HasSubstr("max-side (was 0, now 50)")));
  SmallCoco{.folder = folder_.path(), .good_count = 19}.write();
  EXPECT_THAT(refusal(ErrorKind::kConfig, part_of(options, 3, 3)), HasSubstr("annotations (was"));
}

TEST_F(Parts, ThatAnotherProcessPacksAreRefused) {
  const PackOptions options = coco_.options("set");
  pack_parts(options, 2);
  const FolderLock lock(part_folder(options.output, {.number = 2, .count = 2}));
  PackOptions changed = part_of(options, 2, 2);
  EXPECT_THAT(refusal(ErrorKind::kConfig, changed), HasSubstr("another process"));
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { merge(options); }),
              HasSubstr("another process"));
}

TEST_F(Parts, ReplaceASetOnlyWhenAsked) {
  PackOptions options = coco_.options("set");
  options.max_side_px = 50;
  pack(options);
  const auto old = folder_content(folder_ / "set");
  options = coco_.options("set");
  EXPECT_THAT(refusal(ErrorKind::kConfig, part_of(options, 1, 2)), HasSubstr("max-side"));
  options.overwrite = true;
  pack_parts(options, 2);
  options.overwrite = false;
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { merge(options); }),
              HasSubstr("beside the parts"));
  PackOptions same = coco_.options("set");
  same.max_side_px = 50;
  EXPECT_TRUE(pack(same).was_finished);
  for (const auto& [name, content] : old) EXPECT_EQ(read_file(folder_ / "set/" + name), content);
  options.overwrite = true;
  merge(options);
  EXPECT_EQ(folder_content(folder_ / "set"), merged(2));
}

TEST_F(Parts, WithoutAnyUsableImageAreNoSet) {
  fs::remove_all(folder_ / "images");
  fs::create_directories(folder_ / "images");
  write_file_atomically(folder_ / "images/other.jpg", "x");
  const PackOptions options = coco_.options("set");
  pack_parts(options, 2);
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { merge(options); }),
              HasSubstr("none of the 27 images is usable"));
}

TEST_F(Parts, OneInThePlaceOfAnotherIsRefusedAndPackedAgain) {
  const PackOptions options = coco_.options("set");
  pack_parts(options, 3);
  const auto folder = [&](std::size_t number) {
    return part_folder(options.output, {.number = number, .count = 3});
  };
  fs::remove_all(folder(2));
  fs::copy(folder(1), folder(2), fs::copy_options::recursive);
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { merge(options); }),
              HasSubstr("part (was 2/3, now 1/3)"));
  PackOptions again = part_of(options, 2, 3);
  EXPECT_THAT(refusal(ErrorKind::kConfig, again), HasSubstr("part (was 1/3, now 2/3)"));
  again.overwrite = true;
  EXPECT_FALSE(pack(again).was_finished);
  merge(options);
  EXPECT_EQ(folder_content(folder_ / "set"), merged(3));
}

TEST_F(Parts, WhatSystemsLeaveBesideThemIsIgnored) {
  const PackOptions options = coco_.options("set");
  pack(part_of(options, 1, 2));
  const std::string journal = journal_folder(options.output);
  for (const char* name : {"/.nfs000001", "/.DS_Store", "/Thumbs.db"}) {
    write_file_atomically(journal + name, "x");
  }
  make_folder(journal + "/.snapshot");
  pack(part_of(options, 2, 2));
  write_file_atomically(journal + "/notes.txt", "x");
  const std::string said = journal + ": holds notes.txt, which does not look like coco-pack's";
  EXPECT_EQ(refusal(ErrorKind::kConfig, part_of(options, 2, 2)), said);
  EXPECT_EQ(refusal_of(ErrorKind::kConfig, [&] { merge(options); }), said);
  fs::remove(journal + "/notes.txt");
  EXPECT_FALSE(merge(options).was_finished);
}

// As a merge that was killed while it moved files leaves them.
TEST_F(Parts, AKilledMergeIsCompletedByTheNext) {
  const auto calm = merged(3);
  PackOptions options = coco_.options("parts");
  pack_parts(options, 3);
  options.output = folder_ / "set";
  const std::size_t all = read_manifest(folder_ / "calm").shards.size();
  for (const std::size_t moved : {std::size_t{1}, all}) {
    fs::copy(folder_ / "parts", options.output, fs::copy_options::recursive);
    std::size_t shard = 0;
    for (std::size_t number = 1; number <= 3; ++number) {
      const std::string folder = part_folder(options.output, {.number = number, .count = 3});
      for (const ManifestShard& one : read_manifest(folder).shards) {
        if (shard == moved) break;
        fs::rename(folder + "/" + one.file.name, folder_ / "set/" + shard_file_name(shard++, all));
      }
    }
    for (const char* name : {kIndexFile, kQuarantineFile, kManifestFile, "report.html"}) {
      fs::copy_file(folder_ / cat("calm/", name), folder_ / cat("set/.packing/", name));
    }
    EXPECT_THAT(refusal(ErrorKind::kConfig, part_of(options, 1, 3)), HasSubstr("interrupted"));
    EXPECT_TRUE(merge(options).was_finished);
    EXPECT_EQ(folder_content(folder_ / "set"), calm) << moved << " files were moved";
    fs::remove_all(folder_ / "set");
  }
}

}  // namespace
}  // namespace retina
