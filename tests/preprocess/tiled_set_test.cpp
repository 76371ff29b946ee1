// coco-pack --tile: sets of tiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "preprocess/inspect.h"
#include "preprocess/summary.h"
#include "preprocess/tally.h"
#include "preprocess/tile_plan.h"
#include "preprocess/verify.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/image/jpeg.h"
#include "tests/preprocess/packed_before.h"
#include "tests/support/images/images.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

class TiledSet : public testing::Test {
 protected:
  TiledSet() { source_ = coco_.write(); }

  PackOptions options(const std::string& name) const {
    PackOptions options = coco_.options(name);
    options.tile_px = 48;
    options.encoding = ImageEncoding::kRaw;
    options.shard_size_bytes = 64 << 10;
    return options;
  }

  ImageInfo image_of(std::int64_t id) const {
    return *std::find_if(source_.images.begin(), source_.images.end(),
                         [&](const ImageInfo& image) { return image.id == id; });
  }
  std::string path_of(const ImageInfo& image) const {
    return folder_ / "images/" + image.file_name;
  }

  static std::size_t number_of(const IndexEntry& entry, const TileRule& rule) {
    const std::vector<TileRect> all =
        tiles_of({entry.tile->image_width, entry.tile->image_height}, grid_of(rule));
    const TileRect place{entry.tile->x, entry.tile->y, entry.width, entry.height};
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), place) - all.begin());
  }

  std::string problems_of(const std::string& folder) const {
    std::string problems;
    verify_shards({.folder = folder, .thread_count = 2, .on_problem = [&](const auto& line) {
                     problems += line + "\n";
                   }});
    return problems;
  }

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 14};
  Instances source_;
};

TEST_F(TiledSet, HoldsEveryTileOfEveryImageWithItsPixelsAndBoxes) {
  pack(options("set"));
  const ShardSet set(folder_ / "set");
  const TileRule& rule = set.manifest().options.tile.value();
  std::map<std::int64_t, std::size_t> count_of;
  for (std::size_t at = 0; at < set.index().size(); ++at) {
    const Record record = set.read(at);
    ASSERT_TRUE(record.tile);
    const ImageInfo image = image_of(record.image_id);
    EXPECT_EQ(record.file_name, image.file_name);
    EXPECT_EQ(record.tile->image_width, image.width);
    EXPECT_EQ(record.tile->image_height, image.height);
    Image whole, tile;
    JpegDecoder decoder;
    ASSERT_TRUE(decoder.decode(read_file(path_of(image)), whole).ok);
    decode_image(record, "set", decoder, tile);
    for (int y = 0; y < tile.height; ++y) {
      ASSERT_TRUE(std::equal(tile.pixel(0, y), tile.pixel(0, y) + 3 * tile.width,
                             whole.pixel(record.tile->x, record.tile->y + y)));
    }
    EXPECT_EQ(number_of(set.index()[at], rule), count_of[record.image_id]++);
    EXPECT_EQ(record.whole_annotations.has_value(), record.tile->x == 0 && record.tile->y == 0);
  }
  for (const ImageInfo& image : source_.images) {
    EXPECT_EQ(count_of[image.id], tiles_of({image.width, image.height}, grid_of(rule)).size());
  }
  EXPECT_EQ(problems_of(folder_ / "set"), "");
}

TEST_F(TiledSet, IsScoredAndExportedAsItsWholeImages) {
  pack(options("set"));
  pack(coco_.options("whole"));
  EXPECT_EQ(instances_to_json(ground_truth_of(ShardSet(folder_ / "set"))),
            instances_to_json(ground_truth_of(ShardSet(folder_ / "whole"))));
  for (const char* name : {"set", "whole"}) {
    inspect({.folder = folder_ / name, .export_annotations = folder_ / cat(name, ".json")});
  }
  EXPECT_EQ(read_file(folder_ / "set.json"), read_file(folder_ / "whole.json"));
}

TEST_F(TiledSet, CountsTilesImagesAndBoxes) {
  const PackResult result = pack(options("set"));
  const ManifestCounts& counts = result.manifest.counts;
  EXPECT_EQ(counts.tiled_images, 14);
  EXPECT_EQ(counts.whole_boxes, static_cast<std::int64_t>(source_.annotations.size()));
  EXPECT_GT(counts.images, 40);
  EXPECT_GT(counts.boxes, counts.whole_boxes);
  EXPECT_GT(counts.partial, 0);
  EXPECT_GT(counts.cut, 0);
  EXPECT_EQ(counts.trainable, counts.boxes - counts.crowds - counts.degenerate - counts.partial);
  EXPECT_THAT(describe_result(folder_ / "set", result),
              HasSubstr(cat("  tiles         ", counts.images, " (")));
  const std::string page = read_file(folder_ / "set/report.html");
  EXPECT_THAT(page, HasSubstr(cat(counts.images, " tiles of 14 images")));
  EXPECT_THAT(page, HasSubstr("48 × 48 at "));
}

TEST(Tally, NamesADegenerateBoxOfSeveralTilesOnce) {
  Tally tally(1);
  const RecordAnnotation flat{.id = 28, .bbox = {30, 5, 0, 9}};
  for (std::int64_t image_id = 1; image_id <= 2; ++image_id) {
    Record record{.image_id = image_id,
                  .file_name = "s02.jpg",
                  .width = 40,
                  .height = 40,
                  .annotations = {flat},
                  .tile = TilePlace{.image_width = 70, .image_height = 40},
                  .whole_annotations = {{flat}}};
    tally.add(record);
    record.whole_annotations.reset();
    tally.add(record);
  }
  EXPECT_EQ(tally.counts.degenerate, 4);
  EXPECT_EQ(tally.degenerate_annotations, 2);
  EXPECT_EQ(tally.first_degenerate.size(), 2U);
  EXPECT_THAT(describe_result("set", {.degenerate_annotations = tally.degenerate_annotations,
                                      .first_degenerate = tally.first_degenerate}),
              HasSubstr("not trained   2 boxes"));
}

TEST_F(TiledSet, HasTheSameBytesWhateverTheThreadsAndTheInterruptions) {
  for (const bool leaves_out : {false, true}) {
    SCOPED_TRACE(leaves_out);
    PackOptions made = options(cat("1", leaves_out));
    made.threads = 1;
    if (leaves_out) made.tile_empty = 0.3;
    const std::size_t shards = pack(made).manifest.shards.size();
    ASSERT_GT(shards, 4U);
    const auto whole = folder_content(made.output);
    PackOptions other = made;
    for (const int threads : {2, 5}) {
      other.output = folder_ / cat(threads, "threads", leaves_out);
      other.threads = threads;
      pack(other);
      EXPECT_EQ(folder_content(other.output), whole);
    }
    bool inside_an_image = false;
    for (std::size_t finished = 1; finished < shards; finished += 3) {
      other.output = folder_ / cat("after", finished, leaves_out);
      const ShardSet set(made.output);
      leave_finished(set, other.output, finished);
      std::size_t at = 0;
      while (set.index()[at].shard < finished) ++at;
      inside_an_image |= set.index()[at].image_id == set.index()[at - 1].image_id;
      const PackResult result = pack(other);
      EXPECT_EQ(result.reused_shards, finished);
      EXPECT_EQ(folder_content(other.output), whole);
    }
    EXPECT_TRUE(inside_an_image) << "no shard ended inside an image";
  }
}

TEST_F(TiledSet, OtherTilesAreRefusedByName) {
  pack(options("set"));
  EXPECT_TRUE(pack(options("set")).was_finished);
  PackOptions other = options("set");
  other.tile_px = 64;
  other.tile_overlap = 0.25;
  other.tile_visibility = 0.5;
  other.tile_empty = 0;
  const std::string message = refusal_of(ErrorKind::kConfig, [&] { pack(other); });
  for (const char* part : {"tile (was 48, now 64)", "tile-overlap (was 0.2, now 0.25)",
                           "tile-visibility (was 0.4, now 0.5)", "tile-empty (was 1, now 0)"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST_F(TiledSet, OfSplitTheValidationPartKeepsAllTiles) {
  PackOptions whole = options("two");
  whole.split = 0.5;
  whole.tile_empty = 0;
  std::vector<Manifest> manifests;
  for (const PackOptions& set : whole.sets()) manifests.push_back(pack(set).manifest);
  EXPECT_EQ(manifests[0].options.tile->empty, 0);
  EXPECT_EQ(manifests[1].options.tile->empty, 1);
  EXPECT_GT(manifests[1].counts.images_without_boxes, manifests[1].counts.tiled_images / 6);
  EXPECT_EQ(problems_of(folder_ / "two/train"), "");
  EXPECT_EQ(problems_of(folder_ / "two/validation"), "");
}

TEST_F(TiledSet, QuarantinesBadImagesWhole) {
  const SmallCoco coco{.folder = folder_ / "bad", .good_count = 6, .with_bad_images = true};
  coco.write();
  PackOptions bad = coco.options("set");
  bad.tile_px = 32;
  const Manifest manifest = pack(bad).manifest;
  EXPECT_EQ(manifest.counts.tiled_images, 6);
  EXPECT_EQ(manifest.counts.quarantined, 7);
  std::map<std::int64_t, std::string> kinds;
  for (const QuarantinedImage& one : ShardSet(bad.output).read_quarantine()) {
    kinds[one.image_id] = one.kind;
    if (one.image_id == 901) {
      EXPECT_THAT(one.reason, HasSubstr("truncated: "));
    }
  }
  EXPECT_EQ(kinds, bad_image_kinds());
  EXPECT_TRUE(pack(bad).was_finished);
}

// An image of some rows of tiles whose end is missing.
TEST_F(TiledSet, WithHeadersAloneCheckedDamageEndsThePackingAndIsNotPublished) {
  const ImageInfo image = source_.images.at(10);
  std::string bytes = encode_jpeg(colourful(image.width, image.height), 90);
  write_file_atomically(path_of(image), bytes.substr(0, bytes.size() * 2 / 3));
  PackOptions unchecked = options("set");
  unchecked.check = ImageCheck::kHeader;
  EXPECT_THAT(pack_refusal(unchecked),
              AllOf(HasSubstr(image.file_name + ": tile 48x48+0+"), HasSubstr("truncated: "),
                    HasSubstr("--check full --overwrite")));
  EXPECT_FALSE(path_exists(folder_ / "set/manifest.json"));
  unchecked.check = ImageCheck::kFull;
  unchecked.overwrite = true;
  EXPECT_EQ(pack(unchecked).manifest.counts.quarantined, 1);
}

TEST_F(TiledSet, TakesOtherFormatsWithConvertAlone) {
  for (const bool converts : {false, true}) {
    const SmallCoco coco{.folder = folder_ / cat("formats", converts), .good_count = 3};
    const Instances source = coco.write();
    const auto write = [&](std::size_t i, const std::string& file) {
      write_file_atomically(coco.folder + "/images/" + source.images[i].file_name, file);
    };
    const Image first = colourful(source.images[0].width, source.images[0].height);
    write(0, encode_png(first));
    write(1, encode_tiff(colourful(source.images[1].width, source.images[1].height)));
    PackOptions formats = coco.options("set");
    formats.tile_px = 32;
    formats.convert = converts;
    formats.encoding = ImageEncoding::kRaw;
    const Manifest manifest = pack(formats).manifest;
    EXPECT_EQ(manifest.counts.tiled_images, converts ? 3 : 1);
    const ShardSet set(formats.output);
    for (const QuarantinedImage& one : set.read_quarantine()) {
      EXPECT_EQ(one.kind, "format");
      EXPECT_THAT(one.hint, HasSubstr("--convert"));
    }
    for (std::size_t at = 0; at < set.index().size(); ++at) {
      const Record record = set.read(at);
      EXPECT_EQ(record.converted, record.image_id != 3);
      if (record.image_id != 1) continue;
      EXPECT_EQ(
          record.image.substr(0, 96),
          std::string_view(
              reinterpret_cast<const char*>(first.pixel(record.tile->x, record.tile->y)), 96));
    }
  }
}

// Of which rows of tiles would take 1.8 GB.
TEST_F(TiledSet, QuarantinesAnImageThatIsTooWideForItsTiles) {
  const SmallCoco coco{.folder = folder_ / "wide", .good_count = 3};
  Instances source = coco.write();
  source.images[0].width = 999'999;
  source.images[0].height = 600;
  write_file_atomically(coco.folder + "/images/" + source.images[0].file_name,
                        sparse_tiff(999'999, 600, 1'000'000, 16));
  PackOptions wide = coco.options("set");
  write_file_atomically(wide.annotations, instances_to_json(source));
  wide.tile_px = 640;
  wide.convert = true;
  EXPECT_EQ(pack(wide).manifest.counts.quarantined, 1);
  const QuarantinedImage bad = ShardSet(wide.output).read_quarantine().at(0);
  EXPECT_EQ(bad.kind, "too-large");
  EXPECT_THAT(bad.reason, HasSubstr("a row of its tiles is an image of 999999x600 pixels (the "
                                    "limit is 357913941 in all); smaller tiles need less"));
}

TEST_F(TiledSet, IsInspectedByImageAndByTile) {
  pack(options("set"));
  const ImageInfo image = source_.images.at(10);
  const std::string list = inspect({.folder = folder_ / "set", .image_file = image.file_name});
  EXPECT_THAT(list, HasSubstr(cat(image.file_name, " (image ", image.id, "): ", image.width, "x",
                                  image.height, ", ")));
  EXPECT_THAT(list, HasSubstr(image.file_name + "+32+0"));
  EXPECT_EQ(list, inspect({.folder = folder_ / "set", .image_id = image.id}));

  InspectOptions tile{.folder = folder_ / "set",
                      .image_file = image.file_name + "+32+0",
                      .draw = folder_ / "out.jpg"};
  EXPECT_THAT(inspect(tile), HasSubstr(cat("tile 48x", std::min(48, image.height), "+32+0 of ",
                                           image.width, "x", image.height)));
  EXPECT_TRUE(path_exists(tile.draw));
  tile.image_file = image.file_name;
  EXPECT_THAT(refusal_of(ErrorKind::kUsage, [&] { inspect(tile); }), HasSubstr(" tiles"));
  EXPECT_THAT(inspect({.folder = folder_ / "set"}), HasSubstr("per tile"));
}

TEST_F(TiledSet, TellsImagesOfOneFileApartByTheirIds) {
  source_.images.at(11) = source_.images.at(10);
  const std::string& file = source_.images.at(10).file_name;
  const std::int64_t first = source_.images.at(10).id,
                     second = source_.images.at(11).id = first + 1;
  std::erase_if(source_.annotations, [&](const auto& one) { return one.image_id == second; });
  write_file_atomically(folder_ / "annotations.json", instances_to_json(source_));
  pack(options("set"));
  EXPECT_EQ(problems_of(folder_ / "set"), "");
  const auto ask = [&](std::optional<std::int64_t> id, const std::string& name) {
    return InspectOptions{.folder = folder_ / "set", .image_id = id, .image_file = name};
  };
  for (const std::string& name : {file, file + "+32+0"}) {
    EXPECT_THAT(refusal_of(ErrorKind::kUsage, [&] { inspect(ask({}, name)); }),
                HasSubstr(cat("--image ", name, ": 2 images have this file, the first is ")));
  }
  EXPECT_THAT(inspect(ask(second, "")), HasSubstr(cat("(image ", second, "): ")));
  EXPECT_THAT(inspect(ask(second, file + "+32+0")), HasSubstr(cat("(image ", second, "): tile ")));
  EXPECT_THAT(inspect(ask(second, file + "+32+0")), HasSubstr("no boxes"));
  EXPECT_NO_THROW(ask(second, file).validate());
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { inspect(ask(first + 2, file)); }),
              HasSubstr("is not in this data set"));
}

TEST_F(TiledSet, ExcludesOptionsThatMakeNoSenseWithIt) {
  options("set").validate();
  const auto refused = [&](const std::function<void(PackOptions&)>& change) {
    PackOptions changed = options("set");
    change(changed);
    return refusal_of(ErrorKind::kUsage, [&] { changed.validate(); });
  };
  EXPECT_THAT(refused([](auto& o) { o.max_side_px = 50; }), HasSubstr("--max-side"));
  EXPECT_THAT(refused([](auto& o) { o.exif = ExifPolicy::kApply; }), HasSubstr("--exif"));
  EXPECT_THAT(refused([](auto& o) { o.format = AnnotationFormat::kFolders; }),
              HasSubstr("--tile: has no effect"));
  EXPECT_THAT(refused([](auto& o) { o.quality = 80; }), HasSubstr("--quality"));
}

}  // namespace
}  // namespace retina
