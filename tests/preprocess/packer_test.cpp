#include "preprocess/packer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "preprocess/summary.h"
#include "preprocess/verify.h"
#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

TEST(Packer, WarnsOfWhatItsAnnotationsMakeDoubtfulAndTheSetKeepsIt) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path()};
  Instances source = coco.write();
  pack(coco.options("healthy"));
  EXPECT_TRUE(read_manifest(folder / "healthy").notes.empty());
  Annotation twice = source.annotations.front();
  twice.id = 5000;
  source.annotations.push_back(twice);
  write_file_atomically(folder / "annotations.json", instances_to_json(source));
  testing::internal::CaptureStderr();
  pack(coco.options("set"));
  const std::string log = testing::internal::GetCapturedStderr();
  const std::vector<std::string> notes = read_manifest(folder / "set").notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0],
              HasSubstr("1 box repeats another one of the same image and class (first: "));
  EXPECT_THAT(log, HasSubstr(notes[0]));
}

TEST(Packer, KeepsImagesAndAnnotationsToTheLastBit) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path()};
  const Instances source = coco.write();
  pack(coco.options("set"));
  const ShardSet set(folder / "set");
  ASSERT_EQ(set.index().size(), source.images.size());
  EXPECT_GT(set.manifest().shards.size(), 2U);
  std::map<std::int64_t, Record> records;
  for (std::size_t i = 0; i < set.index().size(); ++i) {
    records[set.index()[i].image_id] = set.read(i);
  }
  for (const ImageInfo& image : source.images) {
    const Record& record = records.at(image.id);
    EXPECT_EQ(record.image, read_file(folder / "images/" + image.file_name));
    EXPECT_EQ(record.width, image.width);
    EXPECT_EQ(record.height, image.height);
    EXPECT_FALSE(record.rescaled);
    std::size_t at = 0;
    for (const Annotation& want : source.annotations) {
      if (want.image_id != image.id) continue;
      const RecordAnnotation& got = record.annotations.at(at++);
      EXPECT_EQ(got.id, want.id);
      EXPECT_EQ(got.bbox, want.bbox);
      EXPECT_EQ(got.area, want.area);
      EXPECT_EQ(got.iscrowd, want.iscrowd);
      EXPECT_EQ(set.manifest().categories[static_cast<std::size_t>(got.label)].id,
                want.category_id);
    }
    EXPECT_EQ(at, record.annotations.size());
  }
}

TEST(Packer, CountsWhatIsThere) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .with_bad_images = true};
  const Instances source = coco.write();
  const Manifest manifest = pack(coco.options("set")).manifest;
  const ManifestCounts& counts = manifest.counts;
  EXPECT_EQ(counts.images, 24);
  EXPECT_EQ(counts.quarantined, 7);
  EXPECT_EQ(counts.boxes, static_cast<std::int64_t>(source.annotations.size()));
  std::int64_t crowds = 0, degenerate = 0;
  for (const Annotation& annotation : source.annotations) {
    crowds += annotation.iscrowd ? 1 : 0;
    degenerate += annotation.bbox[2] == 0 ? 1 : 0;
  }
  EXPECT_GT(crowds, 0);
  EXPECT_GT(degenerate, 0);
  EXPECT_EQ(counts.crowds, crowds);
  EXPECT_EQ(counts.degenerate, degenerate);
  EXPECT_EQ(counts.trainable, counts.boxes - crowds - degenerate);
  EXPECT_EQ(counts.images_without_boxes, 4);  // ids 6, 12, 18, 24
  ASSERT_EQ(manifest.class_count(), 3);
  EXPECT_EQ(manifest.categories[0].id, 3);
  EXPECT_EQ(manifest.label_counts[0] + manifest.label_counts[1], counts.boxes);
  EXPECT_EQ(manifest.label_counts[2], 0);
}

TEST(Packer, NamesTheBoxesThatTrainingWillNotUse) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .good_count = 2};
  Instances source = coco.write();
  source.annotations = {{.id = 70, .image_id = 1, .category_id = 3, .bbox = {1, 1, 9, 9}}};
  const double thin = 1e-6;  // mirrored, both of its sides are at the image's width in f32
  for (const std::int64_t id : {71, 72, 73, 74, 75, 76}) {
    source.annotations.push_back(
        {.id = id, .image_id = 1, .category_id = 3, .bbox = {thin, 1, thin, 9}});
  }
  write_file_atomically(folder / "annotations.json", instances_to_json(source));
  const PackResult result = pack(coco.options("set"));
  EXPECT_EQ(result.manifest.counts.trainable, 1);
  EXPECT_EQ(result.manifest.counts.degenerate, 6);
  EXPECT_THAT(describe_result("set", result),
              HasSubstr("6 boxes without width or height inside the image: annotations 71 of "
                        "a/0.jpg (image 1), 72 of a/0.jpg (image 1), 73 of "));
}

TEST(Packer, StopsAtTheFirstBadImageWhenAskedTo) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .good_count = 3, .with_bad_images = true};
  coco.write();
  PackOptions options = coco.options("set");
  options.on_bad_image = BadImage::kFail;
  EXPECT_NE(pack_refusal(options), "packed");
  EXPECT_FALSE(path_exists(options.output)) << "nothing was finished, nothing stays";
  options.on_bad_image = BadImage::kQuarantine;
  pack(options);
  options.on_bad_image = BadImage::kFail;
  EXPECT_NE(pack_refusal(options), "packed") << "the finished set has bad images too";
}

TEST(Packer, BloodCellsGiveTheSameBytesWithOneTwoAndFiveThreads) {
  RETINA_DATA_OR_SKIP(data, "bccd");
  const TestFolder folder;
  for (const int threads : {1, 2, 5}) {
    pack({.annotations = data + "/annotations/instances_val.json",
          .images = data + "/images/val",
          .output = folder / std::to_string(threads),
          .shard_size_bytes = 1 << 20,
          .threads = threads});
  }
  EXPECT_EQ(folder_content(folder / "1"), folder_content(folder / "2"));
  EXPECT_EQ(folder_content(folder / "1"), folder_content(folder / "5"));
  EXPECT_EQ(verify_shards({.folder = folder / "1", .thread_count = 2}).problem_count, 0);
}

TEST(Packer, MaxSideShrinksImagesWithTheirBoxes) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path()};
  const Instances source = coco.write();
  PackOptions options = coco.options("set");
  options.max_side_px = 64;
  options.quality = 80;
  const Manifest manifest = pack(options).manifest;
  EXPECT_EQ(manifest.options.max_side_px, 64);
  const ShardSet set(folder / "set");
  std::int64_t rescaled = 0;
  for (std::size_t i = 0; i < set.index().size(); ++i) {
    const Record record = set.read(i);
    const ImageInfo& image = source.images[static_cast<std::size_t>(record.image_id - 1)];
    EXPECT_LE(std::max(record.width, record.height), 64);
    EXPECT_EQ(record.rescaled, std::max(image.width, image.height) > 64);
    rescaled += record.rescaled ? 1 : 0;
    Image pixels;
    ASSERT_TRUE(JpegDecoder().decode(record.image, pixels).ok);
    EXPECT_EQ(pixels.width, record.width);
    EXPECT_EQ(pixels.height, record.height);
    const double scale_x = static_cast<double>(record.width) / image.width;
    const double scale_y = static_cast<double>(record.height) / image.height;
    EXPECT_NEAR(scale_x / scale_y, 1, 0.03);
    std::size_t at = 0;
    for (const Annotation& annotation : source.annotations) {
      if (annotation.image_id != image.id) continue;
      const RecordAnnotation& got = record.annotations[at++];
      EXPECT_NEAR(got.bbox[0], annotation.bbox[0] * scale_x, 1e-9);
      EXPECT_NEAR(got.bbox[3], annotation.bbox[3] * scale_y, 1e-9);
      EXPECT_NEAR(got.area, annotation.area * scale_x * scale_y, 1e-9);
    }
  }
  EXPECT_GT(rescaled, 0);
  EXPECT_EQ(manifest.counts.rescaled, rescaled);
  EXPECT_EQ(verify_shards({.folder = folder / "set"}).problem_count, 0);
}

}  // namespace
}  // namespace retina
