#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "shared/data/sample_source.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::ElementsAre;

constexpr int kWidth = 640, kHeight = 480;

// A set of one grey image with these boxes, or with this class.
void write_set(const std::string& folder, const std::vector<RecordAnnotation>& annotations,
               std::optional<int> label = {}) {
  const std::string jpeg = encode_jpeg(Image(kWidth, kHeight), 90);
  write_records(folder,
                {{.image_id = 7,
                  .width = kWidth,
                  .height = kHeight,
                  .annotations = annotations,
                  .label = label,
                  .image = jpeg}},
                1 << 20, label ? Task::kClassification : Task::kDetection);
}

Sample load(const ShardSource& source, bool flip, int min_side_px) {
  const BatchRequest request{.slots = {{.flip = flip}},
                             .frame = {.min_side_px = min_side_px, .max_side_px = 1333},
                             .padded = {1344, 1344}};
  std::vector<float> pixels(std::size_t{3} * 1344 * 1344);
  JpegDecoder decoder;
  return source.load(request, 0, decoder, pixels.data());
}

// Annotation 8 has a width of 1e-5 px until it is mirrored to x = 640 - 2e-5, which is 640 in f32.
TEST(ShardSource, LeavesOutBoxesWithoutAnAreaAndNamesThem) {
  const TestFolder folder;
  const auto box = [](std::int64_t id, std::array<double, 4> bbox, bool crowd = false) {
    return RecordAnnotation{.id = id, .bbox = bbox, .area = 1, .iscrowd = crowd};
  };
  write_set(folder / "set", {box(1, {100, 50, 60, 80}), box(2, {640 - 2e-5, 10, 10, 100}),
                             box(3, {10, 480 - 2e-5, 100, 10}), box(4, {10, 10, 0, 5}),
                             box(5, {20, 20, 90, 90}, true), box(6, {700, 10, 5, 5}),
                             box(7, {639, 479, 1, 1}), box(8, {1e-5, 10, 1e-5, 100})});
  const ShardSet shards(folder / "set");
  const ShardSource source(shards);
  for (const bool flip : {false, true}) {
    for (const int side : {32, 333, 480, 800}) {
      const Sample sample = load(source, flip, side);
      EXPECT_THAT(sample.ignored, ElementsAre(2, 3, 4, 6, 8)) << flip << " " << side;
      ASSERT_EQ(sample.boxes.size(), 2U) << flip << " " << side;
      EXPECT_EQ(sample.labels.size(), 2U);
      for (const auto& kept : sample.boxes) {
        EXPECT_GT(kept[2], kept[0]) << flip << " " << side;
        EXPECT_GT(kept[3], kept[1]) << flip << " " << side;
      }
    }
  }
}

TEST(ShardSource, TakesCrowdsForBoxesWhereTheyAreAskedFor) {
  const TestFolder folder;
  write_set(folder / "set", {{.id = 1, .bbox = {20, 20, 90, 90}, .area = 1, .iscrowd = true}});
  const ShardSet shards(folder / "set");
  EXPECT_TRUE(load(ShardSource(shards), false, 240).boxes.empty());
  const ShardSource source(shards, {}, ShardSource::Crowds::kBoxes);
  EXPECT_EQ(load(source, false, 240).boxes.size(), 1U);
}

TEST(ShardSource, MirrorsAndScalesBoxesWithThePixels) {
  const TestFolder folder;
  write_set(folder / "set", {{.id = 1, .bbox = {100, 50, 60, 80}, .area = 1}});
  const ShardSet shards(folder / "set");
  const ShardSource source(shards);
  EXPECT_THAT(load(source, false, 240).boxes.front(), ElementsAre(50.F, 25.F, 80.F, 65.F));
  EXPECT_THAT(load(source, true, 240).boxes.front(), ElementsAre(240.F, 25.F, 270.F, 65.F));
}

Sample load_warped(const ShardSource& source, bool flip, const Affine& to_output) {
  const BatchRequest request{.slots = {{.flip = flip,
                                        .warp = Warp{.source_of = inverse(to_output)},
                                        .box_visibility = 0.25}},
                             .frame = {.min_side_px = 240, .max_side_px = 1333},
                             .padded = {320, 256}};
  std::vector<float> pixels(std::size_t{3} * 320 * 256);
  JpegDecoder decoder;
  return source.load(request, 0, decoder, pixels.data());
}

TEST(ShardSource, GivesTheClassOfAWholeImageAndNoBoxes) {
  const TestFolder folder;
  write_set(folder / "set", {}, 2);
  const ShardSet shards(folder / "set");
  const ShardSource source(shards);
  EXPECT_THAT(load(source, true, 240).labels, ElementsAre(2));
  EXPECT_TRUE(load(source, true, 240).boxes.empty());
  EXPECT_THAT(load_warped(source, false, {{1, 0, -1, 0, 1, 0}}).labels, ElementsAre(2))
      << "whatever the warp leaves of the image";
}

// A tile's: of one object too little is inside; a partial box without an area, and a crowd's.
TEST(ShardSource, KeepsPartialBoxesApart) {
  const TestFolder folder;
  write_set(folder / "set",
            {{.id = 1, .bbox = {100, 50, 60, 80}, .area = 1, .is_partial = true},
             {.id = 2, .bbox = {20, 20, 90, 90}, .area = 1, .label = 1},
             {.id = 3, .bbox = {640 - 2e-5, 10, 10, 100}, .area = 1, .is_partial = true},
             {.id = 4, .bbox = {0, 0, 50, 50}, .area = 1, .iscrowd = true, .is_partial = true}});
  const ShardSet shards(folder / "set");
  const ShardSource source(shards);
  for (const bool flip : {false, true}) {
    const Sample sample = load(source, flip, 240);
    EXPECT_EQ(sample.boxes.size(), 1U);
    EXPECT_THAT(sample.labels, ElementsAre(1));
    EXPECT_TRUE(sample.ignored.empty());
    ASSERT_EQ(sample.partial_boxes.size(), 1U);
    EXPECT_THAT(sample.partial_boxes[0],
                flip ? ElementsAre(240.F, 25.F, 270.F, 65.F) : ElementsAre(50.F, 25.F, 80.F, 65.F));
  }
  // A twelfth of it stays, of which a real box's a quarter must.
  const Sample warped = load_warped(source, false, {{1, 0, -77.5 / 320, 0, 1, 0}});
  EXPECT_TRUE(warped.boxes.empty());
  ASSERT_EQ(warped.partial_boxes.size(), 1U);
  EXPECT_THAT(warped.partial_boxes[0],
              testing::Pointwise(testing::FloatNear(1e-3F), {0.F, 25.F, 2.5F, 65.F}));
  EXPECT_TRUE(load_warped(source, false, {{1, 0, -80.0 / 320, 0, 1, 0}}).partial_boxes.empty());
}

TEST(ShardSource, WarpsBoxesWithThePixels) {
  const TestFolder folder;
  write_set(folder / "set", {{.id = 1, .bbox = {100, 50, 60, 80}, .area = 1}});
  const ShardSet shards(folder / "set");
  const ShardSource source(shards);
  const auto expect_box = [](const Sample& sample, const std::array<float, 4>& want) {
    ASSERT_EQ(sample.boxes.size(), 1U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(sample.boxes[0][i], want[i], 1e-3) << i;
  };
  // Of the 320 x 240 px output: without the warp 50, 25, 80, 65, and 240, 25, 270, 65 mirrored.
  expect_box(load_warped(source, false, {{0.5, 0, 0.25, 0, 0.5, 0}}), {105, 12.5F, 120, 32.5F});
  expect_box(load_warped(source, true, {{0.5, 0, 0.25, 0, 0.5, 0}}), {200, 12.5F, 215, 32.5F});
  // Sheared by 0.3 of the height: the hull of the four corners.
  expect_box(load_warped(source, false, {{1, 0.3, 0, 0, 1, 0}}), {60, 25, 106, 65});
  // Clipped at the left.
  expect_box(load_warped(source, false, {{1, 0, -60.0 / 320, 0, 1, 0}}), {0, 25, 20, 65});
}

// A quarter of the hull's area decides, and what leaves the image by a warp is no fault of the
// data.
TEST(ShardSource, LeavesOutBoxesThatTheWarpMovesOutOfTheImage) {
  const TestFolder folder;
  write_set(folder / "set", {{.id = 1, .bbox = {100, 50, 60, 80}, .area = 1}});
  const ShardSet shards(folder / "set");
  const ShardSource source(shards);
  const auto boxes_after_shift = [&](double shift_px) {
    const Sample sample = load_warped(source, false, {{1, 0, -shift_px / 320, 0, 1, 0}});
    EXPECT_EQ(sample.labels.size(), sample.boxes.size());
    EXPECT_TRUE(sample.ignored.empty());
    return sample.boxes.size();
  };
  // The box is 50 to 80 px.
  EXPECT_EQ(boxes_after_shift(72.4), 1U);
  EXPECT_EQ(boxes_after_shift(72.6), 0U);
  EXPECT_EQ(boxes_after_shift(80), 0U);
  EXPECT_EQ(boxes_after_shift(1000), 0U);
}

}  // namespace
}  // namespace retina
