// --convert, --exif, --check and --split.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "preprocess/packer.h"
#include "preprocess/verify.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/data/record_image.h"
#include "shared/image/jpeg.h"
#include "shared/image/orientation.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/child_process.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Writes a set of one image file, annotated as `width` x `height` with a box.
PackOptions one_image(const TestFolder& folder, const std::string& bytes, int width, int height) {
  write_plain(folder / "images/a.jpg", bytes);
  Instances instances;
  instances.images = {{.id = 1, .file_name = "a.jpg", .width = width, .height = height}};
  instances.annotations = {{.id = 1, .image_id = 1, .category_id = 3, .bbox = {1, 2, 8, 6}}};
  instances.categories = {{.id = 3, .name = "thing"}};
  write_plain(folder / "annotations.json", instances_to_json(instances));
  return {.annotations = folder / "annotations.json",
          .images = folder / "images",
          .output = folder / "set"};
}

Record only_record(const ShardSet& set) {
  EXPECT_EQ(set.index().size(), 1U);
  return set.read(0);
}

Image decoded(const Record& record) {
  Image image;
  JpegDecoder decoder;
  decode_image(record, "set", decoder, image);
  return image;
}

double mean_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

// Dark left, bright right, darker towards the bottom: no two orientations look alike.
Image slope(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        image.pixel(x, y)[c] = static_cast<std::uint8_t>(40 + 120 * x / width + 60 * y / height);
      }
    }
  }
  return image;
}

TEST(Convert, PngTiffAndWebpBecomeJpegs) {
  const Image image = slope(40, 30);
  for (const std::string& bytes :
       {encode_png(image), encode_tiff(image), encode_webp(image), encode_lossy_webp(image, 95)}) {
    const TestFolder folder;
    PackOptions options = one_image(folder, bytes, 40, 30);
    options.convert = true;
    options.quality = 95;
    const Manifest manifest = pack(options).manifest;
    EXPECT_EQ(manifest.counts.converted, 1);
    EXPECT_EQ(manifest.options.quality, 95);
    const ShardSet set(options.output);
    const Record record = only_record(set);
    EXPECT_TRUE(record.converted);
    EXPECT_LT(mean_difference(decoded(record), image), 3);
    EXPECT_EQ(verify_shards({.folder = options.output}).problem_count, 0);
    EXPECT_TRUE(pack(options).was_finished);
  }
}

TEST(Convert, ATiffIsTurnedAsItsOrientationSays) {
  const Image stored = slope(40, 30);
  const std::string bytes = encode_tiff({.width = 40, .height = 30, .orientation = 6},
                                        {stored.rgb.begin(), stored.rgb.end()});
  for (const ExifPolicy policy : {ExifPolicy::kIgnore, ExifPolicy::kApply}) {
    const TestFolder folder;
    const Image expected = policy == ExifPolicy::kApply ? upright(stored, 6) : stored;
    PackOptions options = one_image(folder, bytes, expected.width, expected.height);
    options.convert = true;
    options.exif = policy;
    options.encoding = ImageEncoding::kRaw;
    pack(options);
    EXPECT_EQ(decoded(only_record(ShardSet(options.output))).rgb, expected.rgb);
  }
}

TEST(Convert, APngWhoseSamplesFillAQuarterOfTheirRangeIsLeftOutAndStretched) {
  std::vector<std::uint16_t> samples;
  for (int i = 0; i < 40 * 30; ++i) samples.push_back(static_cast<std::uint16_t>(i % 4096));
  const std::string bytes =
      encode_png({.width = 40, .height = 30, .bit_depth = 16, .colour_type = 0}, samples);
  const TestFolder folder;
  PackOptions options = one_image(folder, bytes, 40, 30);
  options.convert = true;
  options.on_bad_image = BadImage::kFail;
  EXPECT_THAT(pack_refusal(options),
              AllOf(HasSubstr(": a PNG of 16-bit samples, whose range is not known "
                              "(the largest is 1199; want 8 bits)"),
                    HasSubstr("--stretch 2,98 packs it")));
  options.stretch = "0,100";
  pack(options);
  const Image image = decoded(only_record(ShardSet(options.output)));
  EXPECT_GT(*std::max_element(image.rgb.begin(), image.rgb.end()), 240);
}

TEST(Convert, ATiffThatOnlyAStretchReadsSaysSoAndOneOfFloatsAnother) {
  const std::string bands = encode_tiff({.samples = 4, .photometric = 1, .extra = {0, 0, 0}},
                                        std::vector<std::uint16_t>(16 * 16 * 4));
  const std::string floats =
      encode_tiff({.bits = 32, .sample_format = 3}, std::vector<std::uint16_t>(16 * 16 * 3));
  const char* const kWhole = "convert it to whole numbers first (gdal_translate -ot Byte -scale)";
  for (const auto& [bytes, stretch, cure] : {std::tuple(bands, "", "--stretch 2,98 packs it"),
                                             {floats, "", kWhole},
                                             {floats, "2,98", kWhole}}) {
    for (const std::optional<int> tile_px : {std::optional<int>(), std::optional<int>(64)}) {
      const TestFolder folder;
      PackOptions options = one_image(folder, bytes, 16, 16);
      options.convert = true;
      options.stretch = stretch;
      options.tile_px = tile_px;
      EXPECT_THAT(pack_refusal(options), HasSubstr(cure));
    }
  }
}

TEST(Convert, SixteenBitsAreStretchedIfAskedFor) {
  std::vector<std::uint16_t> samples;
  for (std::uint16_t i = 0; i < 40 * 30; ++i) samples.insert(samples.end(), {i, i, i});
  const TestFolder folder;
  PackOptions options =
      one_image(folder, encode_tiff({.width = 40, .height = 30, .bits = 16}, samples), 40, 30);
  options.convert = true;
  options.stretch = "0,100";
  options.encoding = ImageEncoding::kRaw;
  EXPECT_EQ(pack(options).manifest.options.stretch, "0,100");
  const Image image = decoded(only_record(ShardSet(options.output)));
  for (int i = 0; i < 40 * 30; ++i) {
    ASSERT_EQ(image.pixel(i % 40, i / 40)[1], std::lround(255.0 * i / 1199)) << i;
  }
  EXPECT_TRUE(pack(options).was_finished);
  options.stretch = "2,98";
  EXPECT_THAT(pack_refusal(options, ErrorKind::kConfig), HasSubstr("stretch"));
}

// The message of coco-pack with these options as well, which are wrong.
std::string usage_error(const std::vector<std::string>& more) {
  std::vector<std::string> command = {"coco-pack", "--annotations", "a",      "--images",
                                      "b",         "--output",      "nowhere"};
  command.insert(command.end(), more.begin(), more.end());
  const ProcessResult result = run_process(command);
  EXPECT_EQ(result.exit_code, 64) << result.err;
  return result.err;
}

TEST(ImageOptions, WithoutEffectOrOutOfRangeAreUsageErrors) {
  EXPECT_THAT(usage_error({"--stretch", "2,98"}), HasSubstr("no effect without --convert"));
  EXPECT_THAT(usage_error({"--stretch", "98,2", "--convert"}),
              HasSubstr("two percentiles LOW,HIGH"));
  EXPECT_THAT(usage_error({"--encoding", "raw"}), HasSubstr("--encoding raw: has no effect"));
  EXPECT_THAT(usage_error({"--encoding", "raw", "--convert", "--quality", "80"}),
              HasSubstr("--quality: has no effect with --encoding raw"));
  EXPECT_THAT(usage_error({"--split-by", "folder"}), HasSubstr("has no effect without --split"));
  EXPECT_THAT(usage_error({"--split", "0.5", "--split-by", "("}),
              HasSubstr("want folder or a regular expression"));
  for (const char* share : {"0", "1", "-1", "nan", "90%"}) usage_error({"--split", share});
}

TEST(Encoding, RawLosesNothing) {
  const Image image = colourful(40, 30);
  const TestFolder folder;
  PackOptions options = one_image(folder, encode_png(image), 40, 30);
  options.convert = true;
  options.encoding = ImageEncoding::kRaw;
  const Manifest manifest = pack(options).manifest;
  EXPECT_EQ(manifest.options.encoding, ImageEncoding::kRaw);
  EXPECT_EQ(manifest.options.quality, 0);
  EXPECT_TRUE(pack(options).was_finished);
  const ShardSet set(options.output);
  const Record record = only_record(set);
  EXPECT_EQ(record.encoding, ImageEncoding::kRaw);
  EXPECT_TRUE(record.converted);
  EXPECT_EQ(decoded(record).rgb, image.rgb);
  EXPECT_EQ(verify_shards({.folder = options.output}).problem_count, 0);
  EXPECT_THAT(read_file(options.output + "/report.html"), HasSubstr("data:image/jpeg;base64,"));
  options.encoding = ImageEncoding::kJpeg;
  EXPECT_THROW(pack(options), Error) << "another set";
}

TEST(Encoding, RawIsWhatTurnsAndShrinksGive) {
  const Image stored = slope(40, 30);
  const TestFolder folder;
  PackOptions options = one_image(folder, with_orientation(encode_jpeg(stored, 95), 6), 30, 40);
  options.exif = ExifPolicy::kApply;
  options.max_side_px = 20;
  options.encoding = ImageEncoding::kRaw;
  pack(options);
  const ShardSet set(options.output);
  const Record record = only_record(set);
  EXPECT_TRUE(record.rescaled && record.converted);
  EXPECT_EQ(record.image.size(), 15U * 20U * 3U);
  EXPECT_EQ(record.annotations.at(0).bbox, (std::array<double, 4>{0.5, 1, 4, 3}));
  EXPECT_EQ(verify_shards({.folder = options.output}).problem_count, 0);
}

TEST(Exif, JpegsKeepTheirBytesUnlessTheyAreTurned) {
  for (const bool converts : {false, true}) {
    const TestFolder folder;
    const std::string jpeg = with_orientation(encode_jpeg(slope(40, 30), 90), 6);
    PackOptions options = one_image(folder, jpeg, 40, 30);
    options.convert = converts;
    if (converts) options.encoding = ImageEncoding::kRaw;
    EXPECT_EQ(pack(options).manifest.counts.converted, 0);
    const ShardSet set(options.output);
    EXPECT_EQ(only_record(set).image, jpeg);
  }
}

TEST(Exif, ApplyTurnsTheImageUprightWhateverItsFormat) {
  const Image stored = slope(40, 30);
  const std::vector<std::uint16_t> samples(stored.rgb.begin(), stored.rgb.end());
  const std::string plain[] = {encode_jpeg(stored, 95), encode_png(stored), encode_webp(stored),
                               encode_lossy_webp(stored, 95)};
  for (int orientation = 2; orientation <= 8; ++orientation) {
    std::vector<std::string> files = {
        encode_tiff({.width = 40, .height = 30, .orientation = orientation}, samples)};
    for (const std::string& file : plain) files.push_back(with_orientation(file, orientation));
    for (const std::string& bytes : files) {
      SCOPED_TRACE(cat(image_format(bytes), ' ', orientation));
      const TestFolder folder;
      const bool sideways = is_turned_sideways(orientation);
      PackOptions options = one_image(folder, bytes, sideways ? 30 : 40, sideways ? 40 : 30);
      options.convert = true;
      options.exif = ExifPolicy::kApply;
      options.quality = 95;
      ASSERT_EQ(pack(options).manifest.counts.converted, 1);
      const ShardSet set(options.output);
      const Record record = only_record(set);
      EXPECT_EQ(exif_orientation(record.image), 1) << "or a viewer would turn it once more";
      EXPECT_LT(mean_difference(decoded(record), upright(stored, orientation)), 3);
      EXPECT_EQ(record.annotations.at(0).bbox, (std::array<double, 4>{1, 2, 8, 6}));
    }
  }
}

TEST(Exif, ErrorLeavesTurnedImagesOut) {
  const Image stored = slope(40, 30);
  for (const std::string& plain :
       {encode_jpeg(stored, 90), encode_png(stored), encode_webp(stored)}) {
    const TestFolder folder;
    PackOptions options = one_image(folder, with_orientation(plain, 8), 40, 30);
    options.convert = true;
    options.exif = ExifPolicy::kError;
    options.on_bad_image = BadImage::kFail;
    EXPECT_THAT(pack_refusal(options), HasSubstr("EXIF orientation 8"));
  }
}

TEST(CheckHeader, PacksTheSameRecordsFromHeadersAlone) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .with_bad_images = true};
  coco.write();
  PackOptions full = coco.options("full"), header = coco.options("header");
  header.check = ImageCheck::kHeader;
  const Manifest of_full = pack(full).manifest, of_header = pack(header).manifest;
  EXPECT_EQ(of_full.counts, of_header.counts) << "cut files and wrong sizes are found, too";
  EXPECT_EQ(of_full.shards.at(0).file.xxh3, of_header.shards.at(0).file.xxh3);
  EXPECT_NE(read_file(folder / "full/manifest.json"), read_file(folder / "header/manifest.json"));
}

TEST(CheckHeader, AFileTooShortForItsImageIsLeftOut) {
  const TestFolder folder;
  std::string bytes = encode_jpeg(slope(2000, 1500), 90);
  bytes = bytes.substr(0, bytes.find("\xFF\xDA") + 50) + "\xFF\xD9";
  PackOptions options = one_image(folder, bytes, 2000, 1500);
  options.check = ImageCheck::kHeader;
  EXPECT_THAT(pack_refusal(options), HasSubstr("truncated: "));
}

TEST(CheckHeader, WhatOnlyDecodingShowsIsLeftToTheReaders) {
  const TestFolder folder;
  // A marker that no decoder takes, in the middle of the entropy data.
  std::string jpeg = encode_jpeg(colourful(64, 64), 90);
  jpeg.replace(jpeg.size() / 2, 4, "\xFF\xC4\xFF\xFF");
  PackOptions options = one_image(folder, jpeg, 64, 64);
  EXPECT_THROW(pack(options), Error);
  options.check = ImageCheck::kHeader;
  EXPECT_EQ(pack(options).manifest.counts.images, 1);
  EXPECT_EQ(verify_shards({.folder = options.output}).problem_count, 1);
}

// Packs the set in `folder` into FOLDER/both.
ProcessResult run_split(const TestFolder& folder, const std::vector<std::string>& options) {
  std::vector<std::string> command = {
      "coco-pack", "--annotations", folder / "annotations.json", "--images", folder / "images",
      "--output",  folder / "both"};
  command.insert(command.end(), options.begin(), options.end());
  return run_process(command);
}

TEST(Split, WritesTwoSetsThatShareTheImages) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .good_count = 60};
  const Instances source = coco.write();
  const ProcessResult result = run_split(folder, {"--split", "0.7"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const ShardSet train(folder / "both/train"), validation(folder / "both/validation");
  EXPECT_NEAR(static_cast<double>(train.index().size()), 42, 12);
  std::set<std::int64_t> ids;
  for (const ShardSet* set : {&train, &validation}) {
    EXPECT_EQ(set->manifest().categories.size(), source.categories.size());
    for (const IndexEntry& entry : set->index()) {
      EXPECT_TRUE(ids.insert(entry.image_id).second) << "in both sets";
    }
  }
  EXPECT_EQ(ids.size(), source.images.size());
  // Again: both are finished. Another share: refused.
  EXPECT_THAT(run_split(folder, {"--split", "0.7"}).out,
              HasSubstr("both/validation: already finished"));
  const ProcessResult refused = run_split(folder, {"--split", "0.5"});
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_THAT(refused.err, HasSubstr("split (was train 0.7, now train 0.5)"));
}

ProcessResult split_of(const TestFolder& folder, int count, const char* share) {
  SmallCoco{.folder = folder.path(), .good_count = count}.write();
  return run_split(folder, {"--split", share});
}

TEST(Split, OfFewImagesTheNearestToTheShareFillsAnEmptyHalf) {
  for (const auto& [share, lacking] :
       {std::pair("0.000001", "train"), {"0.999999", "validation"}}) {
    const TestFolder folder;
    const ProcessResult result = split_of(folder, 3, share);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const ShardSet small(cat(folder.path(), "/both/", lacking));
    const ShardSet large(
        cat(folder.path(), "/both/", std::string(lacking) == "train" ? "validation" : "train"));
    ASSERT_EQ(small.index().size(), 1U);
    ASSERT_EQ(large.index().size(), 2U);
    const std::string moved(small.index()[0].file_name);
    EXPECT_THAT(result.err, HasSubstr(cat(moved, ", whose hash is nearest to the share")));
    for (const IndexEntry& other : large.index()) {
      const double limit = std::stod(share);
      EXPECT_LT(std::abs(SplitSide::place_of(moved) - limit),
                std::abs(SplitSide::place_of(std::string(other.file_name)) - limit));
    }
  }
}

// The names of the images of each side of FOLDER/both.
std::vector<std::set<std::string>> names_of_sides(const TestFolder& folder) {
  std::vector<std::set<std::string>> names(2);
  for (const std::size_t side : {0, 1}) {
    const ShardSet set(folder / (side == 0 ? "both/train" : "both/validation"));
    for (const IndexEntry& entry : set.index()) names[side].emplace(entry.file_name);
  }
  return names;
}

TEST(Split, IdenticalFilesStayTogetherAndAFinishedSetDoesNotNeedThem) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .good_count = 40};
  Instances source = coco.write();
  // Every image once more under another name.
  const std::size_t count = source.images.size();
  for (std::size_t i = 0; i < count; ++i) {
    ImageInfo copy = source.images[i];
    copy.id += 1000;
    copy.file_name = cat("copies/", i, ".jpg");
    write_plain(folder / "images/" + copy.file_name,
                read_file(folder / "images/" + source.images[i].file_name));
    source.images.push_back(copy);
  }
  write_plain(folder / "annotations.json", instances_to_json(source));
  const ProcessResult result = run_split(folder, {"--split", "0.5"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, testing::Not(HasSubstr("byte for byte")));
  const auto names = names_of_sides(folder);
  EXPECT_EQ(names[0].size() + names[1].size(), 2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(names[0].contains(source.images[i].file_name),
              names[0].contains(source.images[count + i].file_name))
        << source.images[i].file_name;
  }
  std::filesystem::remove_all(folder / "images");
  const ProcessResult again = run_split(folder, {"--split", "0.5"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("both/validation: already finished"));
}

TEST(Split, GroupsByFolderOrPatternStayTogether) {
  for (const std::string by : {"folder", "^clip[0-9]", "(clip[0-9])_"}) {
    const TestFolder folder;
    const SmallCoco coco{.folder = folder.path(), .good_count = 40};
    Instances source = coco.write();
    for (std::size_t i = 0; i < source.images.size(); ++i) {
      std::string& name = source.images[i].file_name;
      const std::string frame = by == "folder" ? cat("clip", i / 10, "/", i, ".jpg")
                                               : cat("clip", i / 10, "_", i, ".jpg");
      write_plain(folder / "images/" + frame, read_file(folder / "images/" + name));
      name = frame;
    }
    write_plain(folder / "annotations.json", instances_to_json(source));
    const ProcessResult result = run_split(folder, {"--split", "0.5", "--split-by", by});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::set<std::string> clips[2];
    const auto names = names_of_sides(folder);
    for (const std::size_t side : {0, 1}) {
      for (const std::string& name : names[side]) {
        clips[side].insert(name.substr(0, 5));
      }
    }
    EXPECT_EQ(clips[0].size() + clips[1].size(), 4U) << by;
    EXPECT_EQ(ShardSet(folder / "both/train").manifest().options.part, "train 0.5 by " + by);
  }
}

TEST(Split, OneImageAloneAndGroupsThatCannotBeAreRefusedBeforeAnythingIsWritten) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .good_count = 4};
  coco.write();
  PackOptions options = coco.options("both");
  options.split = 0.5;
  for (const auto& [by, problem] : {std::pair("zebra", "--split-by zebra: matches no file name"),
                                    std::pair("()", "set (got 4 images of one group)")}) {
    options.split_by = by;
    EXPECT_THAT(pack_refusal(options.sets()[0], ErrorKind::kConfig), HasSubstr(problem));
  }
}

}  // namespace
}  // namespace retina
