#include "shared/shard/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/shard/quarantine.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

Manifest some_manifest() {
  Manifest manifest{.annotations_size_bytes = 17,
                    .annotations_xxh3 = 0xfedcba9876543210,
                    .options = {.shard_size_bytes = 1 << 28, .max_side_px = 640, .quality = 90}};
  manifest.categories = {{.id = 3, .name = "cat", .supercategory = "animal"},
                         {.id = 8, .name = "a \"dog\""}};
  manifest.label_counts = {4, 0};
  manifest.counts = {.images = 2, .boxes = 4, .crowds = 1, .degenerate = 1, .trainable = 2};
  manifest.box_sizes = {{{.width = -13, .height = 2, .aspect = -2}, 1}, {{.width = -4}, 1}};
  manifest.shards = {{.file = {.name = shard_file_name(0, 1), .size_bytes = 4096, .xxh3 = 7},
                      .record_count = 2,
                      .tree_xxh3 = 9}};
  manifest.index = {.name = kIndexFile, .size_bytes = 88, .xxh3 = 1};
  manifest.quarantine = {.name = kQuarantineFile};
  return manifest;
}

TEST(Manifest, ReadsBackAsItWasWritten) {
  const std::string text = encode_manifest(some_manifest());
  const Manifest read = decode_manifest(text, "m");
  EXPECT_EQ(encode_manifest(read), text);
  EXPECT_EQ(read.options, some_manifest().options);
  EXPECT_EQ(read.counts, some_manifest().counts);
  EXPECT_EQ(read.box_sizes, some_manifest().box_sizes);
  EXPECT_EQ(read.annotations_xxh3, 0xfedcba9876543210);
  EXPECT_EQ(read.shards[0].file.name, "shard-00000-of-00001.lmdb");
  EXPECT_EQ(read.categories[1].name, "a \"dog\"");
  EXPECT_EQ(read.class_count(), 2);
}

TEST(Manifest, OfTilesKeepsTheirRuleAndCountsAndOthersKeepTheirBytes) {
  Manifest manifest = some_manifest();
  const std::string untiled = encode_manifest(manifest);
  EXPECT_THAT(untiled, testing::Not(HasSubstr("tile")));
  EXPECT_EQ(decode_manifest(untiled, "m").options.tile, std::nullopt);
  manifest.options.tile = {.side_px = 800, .overlap = 0.25, .visibility = 0.5, .empty = 0.1};
  manifest.counts.tiled_images = 1;
  manifest.counts.whole_boxes = 3;
  manifest.counts.partial = 2;
  manifest.counts.cut = 1;
  const std::string text = encode_manifest(manifest);
  const Manifest read = decode_manifest(text, "m");
  EXPECT_EQ(encode_manifest(read), text);
  EXPECT_EQ(read.options, manifest.options);
  EXPECT_EQ(read.counts, manifest.counts);
  EXPECT_EQ(read.counts.source_images(), 1);
  manifest.options.tile->overlap = 1;
  EXPECT_EQ(error_kind([&] { decode_manifest(encode_manifest(manifest), "m"); }), ErrorKind::kData);
}

Manifest classification_manifest() {
  Manifest manifest = some_manifest();
  manifest.task = Task::kClassification;
  manifest.counts = {.images = 4, .rescaled = 1, .quarantined = 3};
  manifest.box_sizes = {};
  return manifest;
}

TEST(Manifest, OfAClassificationSetCountsImagesAndNoBoxes) {
  const std::string text = encode_manifest(classification_manifest());
  const Manifest read = decode_manifest(text, "m");
  EXPECT_EQ(encode_manifest(read), text);
  EXPECT_EQ(read.task, Task::kClassification);
  EXPECT_EQ(read.counts, classification_manifest().counts);
  EXPECT_EQ(read.label_counts, classification_manifest().label_counts);
  EXPECT_THAT(text, HasSubstr(R"("task": "classification")"));
  EXPECT_THAT(text, testing::Not(HasSubstr("boxes")));
}

// Whose hash is right: what a URL answers may be anybody's.
TEST(Manifest, RefusesFilesThatCocoPackDoesNotWrite) {
  const auto refused = [](const auto& change) {
    Manifest manifest = some_manifest();
    change(manifest);
    return error_kind([&] { decode_manifest(encode_manifest(manifest), "m"); });
  };
  const std::string names[] = {"",
                               "shard-00001-of-00001.lmdb",
                               "manifest.json",
                               "../shard-00000-of-00001.lmdb",
                               std::string(300, 'a'),
                               std::string("shard-00000-of-00001.lmdb\0x", 27)};
  for (const std::string& name : names) {
    EXPECT_EQ(refused([&](Manifest& m) { m.shards[0].file.name = name; }), ErrorKind::kData);
    EXPECT_EQ(refused([&](Manifest& m) { m.index.name = name; }), ErrorKind::kData);
    EXPECT_EQ(refused([&](Manifest& m) { m.quarantine.name = name; }), ErrorKind::kData);
  }
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1} << 50, ~std::uint64_t{0}}) {
    EXPECT_EQ(refused([&](Manifest& m) { m.shards[0].file.size_bytes = size; }), ErrorKind::kData);
    EXPECT_EQ(refused([&](Manifest& m) { m.index.size_bytes = size; }), ErrorKind::kData);
  }
}

TEST(Manifest, NamesAnotherVersionOrTaskBeforeAnythingElse) {
  for (const auto& [fields, problem] :
       {std::pair{R"("version": 4)", "was written by a newer version (got format version 4"},
        {R"("version": 2)", "was written by an earlier version (got format version 2, want 3)"},
        {R"("version": 3, "task": "depth")", "was made for another task (got \"depth\""}}) {
    std::string message;
    const std::string text = cat(R"({"format": "retina-batch shards", )", fields, "}");
    EXPECT_EQ(error_kind([&] { decode_manifest(text, "m"); }, &message), ErrorKind::kData);
    EXPECT_THAT(message, HasSubstr(problem));
  }
}

TEST(Manifest, ASetForAnotherTaskIsRefusedByName) {
  check_task(some_manifest(), Task::kDetection, "SET");
  check_task(classification_manifest(), Task::kClassification, "SET");
  std::string message;
  EXPECT_EQ(
      error_kind([] { check_task(classification_manifest(), Task::kDetection, "SET"); }, &message),
      ErrorKind::kConfig);
  EXPECT_EQ(message, "SET: is a classification set (want detection)");
  EXPECT_EQ(error_kind([] { check_task(some_manifest(), Task::kClassification, "SET"); }, &message),
            ErrorKind::kConfig);
  EXPECT_EQ(message, "SET: is a detection set (want classification)");
}

TEST(Manifest, RejectsEveryFlippedBitAndTruncation) {
  for (const std::string& text :
       {encode_manifest(some_manifest()), encode_manifest(classification_manifest())}) {
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string damaged = text;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(error_kind([&] { decode_manifest(damaged, "m"); }), ErrorKind::kData)
          << "bit " << bit;
    }
    for (std::size_t size = 0; size < text.size(); ++size) {
      EXPECT_EQ(error_kind([&] { decode_manifest(text.substr(0, size), "m"); }), ErrorKind::kData);
    }
  }
}

TEST(Manifest, HasNoMoreSizesThanBoxesAndNoneThatIsImpossible) {
  using Sizes = BoxHistogram;
  for (const Sizes& sizes : {Sizes{{{.width = -4}, 3}}, Sizes{{{.width = -4}, 0}},
                             Sizes{{{.width = 125}, 1}}, Sizes{{{.aspect = -125}, 1}}}) {
    Manifest manifest = some_manifest();
    manifest.box_sizes = sizes;
    EXPECT_EQ(error_kind([&] { decode_manifest(encode_manifest(manifest), "m"); }),
              ErrorKind::kData);
  }
}

TEST(Manifest, AFolderWithoutOneIsNoDataSet) {
  const TestFolder folder;
  std::string message;
  EXPECT_EQ(error_kind([&] { read_manifest(folder.path()); }, &message), ErrorKind::kNoInput);
  EXPECT_THAT(message, HasSubstr("not a packed data set"));
  EXPECT_EQ(error_kind([&] { read_manifest(folder / "none"); }), ErrorKind::kNoInput);
}

TEST(Quarantine, ReadsBackAsItWasWritten) {
  const std::vector<QuarantinedImage> images{
      {.image_id = 1, .file_name = "a \"quoted\"\n.jpg", .kind = "damaged", .reason = "cut short"},
      {.image_id = -2, .file_name = "b.jpg", .kind = "missing", .reason = "not there"}};
  EXPECT_EQ(decode_quarantine(encode_quarantine(images), "q"), images);
  EXPECT_EQ(encode_quarantine({}), "");
  EXPECT_TRUE(decode_quarantine("", "q").empty());
}

TEST(Quarantine, NamesTheDamagedLine) {
  std::string message;
  const std::string text = encode_quarantine({{}, {}}) + "{\"image_id\": 7";
  EXPECT_EQ(error_kind([&] { decode_quarantine(text, "q.jsonl"); }, &message), ErrorKind::kData);
  EXPECT_NE(message.find("q.jsonl: line 3"), std::string::npos) << message;
}

}  // namespace
}  // namespace retina
