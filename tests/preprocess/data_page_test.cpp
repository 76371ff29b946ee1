#include "preprocess/page/data_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "preprocess/packer.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/image/jpeg.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// A set of grey images, 800 x 800: boxes keep their size at the trainer's default.
class DataPage : public testing::Test {
 protected:
  DataPage() { manifest_.categories = {{.id = 1, .name = "cat"}, {.id = 9, .name = "<dog>"}}; }

  // An image of the given grey with `count` square boxes of class 0.
  void add(std::uint8_t grey, int count, double side_px, int image_side_px = 800) {
    Image image(image_side_px, image_side_px);
    image.rgb.assign(image.rgb.size(), grey);
    const std::string jpeg = encode_jpeg(image, 50);
    Record record{
        .image_id = ++id_, .width = image_side_px, .height = image_side_px, .image = jpeg};
    for (int i = 0; i < count; ++i) {
      record.annotations.push_back(
          {.id = i + 1, .bbox = {1, 1, side_px, side_px}, .area = side_px * side_px});
    }
    facts_.add(record, xxh3(record.image));
    manifest_.counts.images += 1;
    manifest_.counts.boxes += count;
    manifest_.counts.trainable += count;
  }

  std::string page(int thread_count = 1) {
    return render_data_page({.facts = facts_,
                             .manifest = manifest_,
                             .quarantined = quarantined_,
                             .file_name = [](std::int64_t id) { return cat("file", id, ".jpg"); },
                             .thread_count = thread_count});
  }

  std::int64_t id_ = 0;
  Manifest manifest_{};
  DataFacts facts_{2};
  std::vector<QuarantinedImage> quarantined_{};
};

// The page of a set for classification.
class ClassPage : public DataPage {
 protected:
  ClassPage() { manifest_.task = Task::kClassification; }

  // Images of the given grey, each with the class.
  void add_classified(std::uint8_t grey, int label, int count) {
    Image image(64, 48);
    image.rgb.assign(image.rgb.size(), grey);
    for (int i = 0; i < count; ++i) {
      image.rgb[0] = static_cast<std::uint8_t>(i);
      const std::string bytes(image.rgb.begin(), image.rgb.end());
      const Record record{.image_id = ++id_,
                          .width = 64,
                          .height = 48,
                          .encoding = ImageEncoding::kRaw,
                          .label = label,
                          .image = bytes};
      facts_.add(record, xxh3(record.image));
      manifest_.counts.images += 1;
    }
  }
};

TEST_F(ClassPage, CountsImagesAndKnowsNoBoxes) {
  add_classified(10, 0, 60);
  add_classified(90, 1, 3);
  const std::string html = page();
  for (const char* text : {"63 images, 2 classes", "\"detail\":\"cat: 60 images\",\"count\":60",
                           "1 class has fewer than 20 images: \\u003cdog> (3)", "64 × 48 · cat"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  const std::size_t data = html.find("id=\"page\">");
  const std::string shown = html.substr(data, html.find("</script>", data) - data);
  EXPECT_THAT(shown, Not(HasSubstr("boxes")));
  EXPECT_THAT(shown, Not(HasSubstr("no anchor")));
  EXPECT_EQ(html, page(5)) << "whatever the number of threads";
}

TEST_F(ClassPage, NamesImagesUnderTwoClassesFirst) {
  add_classified(10, 0, 32);
  add_classified(10, 0, 2);
  add_classified(200, 1, 30);
  EXPECT_THAT(page(), HasSubstr("2 images repeat another one byte for byte"));
  EXPECT_THAT(page(), Not(HasSubstr("with different classes:")));
  add_classified(200, 0, 1);
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("1 image is in the set several times with different classes:"));
  const std::size_t contradictory = html.find("file35.jpg (35), file65.jpg (65)\",\"differ");
  ASSERT_NE(contradictory, std::string::npos);
  EXPECT_LT(contradictory, html.find("file1.jpg (1), file33.jpg (33)"));
}

TEST_F(DataPage, BeginsWithTheNotesAndNamesClassesWithFewBoxes) {
  add(10, 60, 100);
  manifest_.notes = {"2 boxes repeat <another> one"};
  const std::string html = page();
  for (const char* text : {"\"findings\":[{\"text\":\"2 boxes repeat \\u003canother> one.\"",
                           "1 class has fewer than 50 boxes: \\u003cdog> (0)", "\\u003cdog> ▲",
                           "\"detail\":\"cat: 60 boxes\",\"count\":60"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_LT(html.find("\"detail\":\"cat: 60"), html.find("\"detail\":\"\\u003cdog>: 0"));
  EXPECT_THAT(html, Not(HasSubstr("<dog>")));
  EXPECT_THAT(html, Not(HasSubstr("cat ▲")));
}

TEST_F(DataPage, DrawsTheLargestOfManyClasses) {
  manifest_.categories.clear();
  for (int k = 0; k < 1000; ++k) manifest_.categories.push_back({.id = k, .name = cat("c", k)});
  facts_ = DataFacts(1000);
  add(10, 60, 100);
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("the 80 largest of 1,000 classes"));
  EXPECT_THAT(html, HasSubstr("\"detail\":\"c79: 0 boxes\""));
  EXPECT_THAT(html, Not(HasSubstr("\"label\":\"c80\"")));
}

TEST_F(DataPage, NamesIdenticalImagesAndThoseWithOtherBoxes) {
  add(10, 1, 100);
  add(10, 1, 100);
  add(20, 1, 100);
  EXPECT_THAT(page(), HasSubstr("[\"file1.jpg (1), file2.jpg (2)\",\"the same\"]"));
  EXPECT_THAT(page(), Not(HasSubstr("with different boxes")));
  EXPECT_THAT(page(), HasSubstr("1 image repeats another one byte for byte"));
  add(20, 2, 50);
  EXPECT_THAT(page(), HasSubstr("[\"file3.jpg (3), file4.jpg (4)\",\"differ\"]"));
  EXPECT_THAT(page(), HasSubstr("1 image is in the set several times with different boxes"));
}

TEST_F(DataPage, ProposesAnchorsForSmallBoxes) {
  add(10, 30, 100);
  EXPECT_THAT(page(), Not(HasSubstr("--anchor-sizes 1")));
  add(20, 70, 12);
  EXPECT_THAT(page(), HasSubstr("No default anchor covers 70.0 % of the boxes"));
  EXPECT_THAT(page(), HasSubstr("\"options\":\"--anchor-sizes 16,32,64,128,256\""));
}

TEST_F(DataPage, SaysAtWhichSizeAnchorsAreJudged) {
  add(1, 30, 12, 400);
  EXPECT_THAT(page(), HasSubstr("of the boxes, images at 800/1333 px"));
  manifest_.options.tile = TileRule{.side_px = 400};
  EXPECT_THAT(page(), HasSubstr("of the boxes, tiles of 400 px enlarged to 800 px"));
  manifest_.options.tile = TileRule{.side_px = 800};
  EXPECT_THAT(page(), HasSubstr("of the boxes, tiles of 800 px as they are"));
}

TEST_F(DataPage, NamesObjectsThatArePartialInEveryTile) {
  manifest_.options.tile = TileRule{.side_px = 400};
  // Images of 700 x 400 px in two tiles: of each, a box that neither tile shows enough of, one
  // that the second does, and a crowd.
  const RecordAnnotation large{.id = 1, .bbox = {0, 0, 699.6, 400}, .label = 1},
      other{.id = 2, .bbox = {300, 0, 400, 300}},
      crowd{.id = 3, .bbox = {0, 0, 700, 400}, .iscrowd = true};
  const auto seen = [](RecordAnnotation whole, bool is_partial) {
    whole.bbox = {0, 0, 400, 400};
    whole.is_partial = is_partial;
    return whole;
  };
  const std::string jpeg = encode_jpeg(Image(400, 400), 50);
  for (std::int64_t id = 1; id <= 2; ++id) {
    Record record{.image_id = id,
                  .width = 400,
                  .height = 400,
                  .annotations = {seen(large, true), seen(other, true)},
                  .tile = TilePlace{.x = 0, .y = 0, .image_width = 700, .image_height = 400},
                  .whole_annotations = {{large, other, crowd}},
                  .image = jpeg};
    facts_.add(record, 1);
    record.tile->x = 300;
    record.annotations = {seen(large, true), seen(other, false), seen(crowd, false)};
    record.whole_annotations.reset();
    facts_.add(record, 2);
    manifest_.counts.images += 2;
    if (id > 1) continue;
    EXPECT_EQ(lost_in_tiles(facts_, manifest_.categories),
              "1 box is partial in every tile, so nothing learns it (<dog> 1; the largest 700x400 "
              "px): a larger --tile or more overlap shows more of it");
  }
  EXPECT_THAT(page(), HasSubstr("2 boxes are partial in every tile, so nothing learns them "
                                "(\\u003cdog> 2; the largest 700x400 px): a larger --tile"));
  facts_ = DataFacts(2);
  add(10, 60, 100);
  EXPECT_THAT(page(), Not(HasSubstr("in every tile")));
}

TEST_F(DataPage, AdvisesTilesWhereLargeImagesLoseTheirBoxesOrMakeMostSmall) {
  add(1, 30, 20, 4000);
  EXPECT_THAT(page(), HasSubstr("Images are 5.0 times as large as the network sees them (800 px): "
                                "pack them with --tile 800."));
  manifest_.options.tile = TileRule{.side_px = 800};
  EXPECT_THAT(page(), Not(HasSubstr("pack them with")));
  manifest_.options.tile.reset();
  facts_ = DataFacts(2);
  add(1, 30, 150, 4000);  // 30 px as the network sees them: covered, but small
  EXPECT_THAT(page(), HasSubstr("pack them with --tile 800"));
  facts_ = DataFacts(2);
  add(1, 30, 1000, 4000);
  EXPECT_THAT(page(), Not(HasSubstr("--tile"))) << "large objects";
  add(2, 100, 8);
  add(3, 100, 8);
  EXPECT_THAT(page(), Not(HasSubstr("--tile"))) << "ordinary images";
}

TEST_F(DataPage, ListsTheFirstImagesLeftOut) {
  add(10, 1, 100);
  for (int i = 0; i < 25; ++i) {
    quarantined_.push_back({i, cat("bad", i, ".jpg"), i == 0 ? "size" : "damaged", "is <bad>"});
  }
  manifest_.counts.quarantined = 25;
  const std::string html = page();
  EXPECT_THAT(html, HasSubstr("25 images are quarantined (damaged 24, size 1)"));
  EXPECT_THAT(html, HasSubstr("[\"bad19.jpg\",\"19\",\"is \\u003cbad>\"]"));
  EXPECT_THAT(html, Not(HasSubstr("bad20.jpg")));
}

TEST_F(DataPage, IsTheSameWhateverTheThreadsAndBoundedInSamples) {
  for (int i = 0; i < 40; ++i) add(static_cast<std::uint8_t>(i), 3, 20 + i);
  const std::string html = page(1);
  EXPECT_EQ(page(4), html);
  std::size_t images = 0;
  for (std::size_t at = 0; (at = html.find("data:image/jpeg", at)) != std::string::npos; ++at)
    ++images;
  EXPECT_EQ(images, kSampleCount);
}

// By --check header it may be in a set.
TEST_F(DataPage, LeavesOutASampleThatCannotBeDecoded) {
  add(10, 3, 20);
  Record damaged{.image_id = ++id_, .width = 800, .height = 800, .image = "\xFF\xD8"};
  damaged.annotations.push_back({.id = 1, .bbox = {1, 1, 20, 20}, .area = 400});
  facts_.add(damaged, 1);
  testing::internal::CaptureStderr();
  const std::string html = page();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("warning: data page: the image of file2.jpg (image 2): not a JPEG"));
  const std::size_t first = html.find("data:image/jpeg");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(html.find("data:image/jpeg", first + 1), std::string::npos);
}

TEST_F(DataPage, SurvivesASetWithoutBoxes) {
  add(10, 0, 0);
  EXPECT_THAT(page(), HasSubstr("1 image, 0 boxes, 2 classes"));
}

// With packing.
class PackedPage : public testing::Test {
 protected:
  PackedPage() { coco_.write(); }
  std::string page() const { return read_file(folder_ / "set/report.html"); }

  const TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .with_bad_images = true};
};

TEST_F(PackedPage, IsReplacedWithItsSet) {
  pack(coco_.options("set"));
  const std::string first = page();
  EXPECT_THAT(first, HasSubstr("images are quarantined"));
  SmallCoco{.folder = folder_.path(), .good_count = 12, .seed = 5}.write();
  PackOptions options = coco_.options("set");
  options.overwrite = true;
  pack(options);
  EXPECT_NE(page(), first);
  EXPECT_THAT(page(), HasSubstr("12 images, "));
}

TEST_F(PackedPage, LeavesAloneWhatIsSomebodyElses) {
  const std::string path = folder_ / "set/report.html";
  std::filesystem::create_directories(path);
  pack(coco_.options("set"));
  EXPECT_TRUE(is_folder(path));
  for (const bool is_pipe : {false, true}) {
    std::filesystem::remove_all(folder_ / "set");
    std::filesystem::create_directory(folder_ / "set");
    if (is_pipe) {
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    } else {
      write_file_atomically(path, "my notes");
    }
    pack(coco_.options("set"));
    EXPECT_EQ(is_pipe ? "my notes" : page(), "my notes");
    EXPECT_EQ(ShardSet(folder_ / "set").index().size(), 24U);
  }
}

}  // namespace
}  // namespace retina
