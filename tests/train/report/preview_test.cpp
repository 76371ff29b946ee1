#include "train/report/preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// Grey images with two boxes: one of the size of an anchor, one that is far too thin for any.
class TwoBoxes : public SampleSource {
 public:
  explicit TwoBoxes(bool is_tile = false) : is_tile_(is_tile) {
    for (int i = 0; i < 5; ++i) index_.push_back({.image_id = 70 + i, .width = 160, .height = 120});
  }
  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder&,
              PixelTarget pixels) const override {
    const Image image(160, 120);
    Sample sample = sized_sample(request, place, {image.width, image.height});
    sample.image_id = index_[request.slots[place].record].image_id;
    put_pixels(image, request, sample, Normalisation{}, pixels);
    sample.boxes = {{10, 10, 42, 42}, {0, 60, 150, 62}};
    sample.labels = {0, 1};
    if (is_tile_) {
      sample.tile = TileRect{.x = 640, .y = 1280, .width = 160, .height = 120};
      sample.partial_boxes = {{100, 0, 160, 40}};
    }
    return sample;
  }

 private:
  bool is_tile_;
  ImageIndex index_;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string page_of(std::int64_t image_count, std::int64_t total_steps,
                    std::optional<double> foreground_iou = 0.5,
                    const TwoBoxes& source = TwoBoxes()) {
  const TrainingSet train{.source = source,
                          .categories = {{.id = 1, .name = "cat"}, {.id = 2, .name = "dog"}}};
  const TrainingPlan plan(
      source.index(), {.images_per_step = 2, .frame = {.min_side_px = 120, .max_side_px = 160}});
  return render_preview({.train = train,
                         .folders = {"shards"},
                         .image_count = image_count,
                         .total_steps = total_steps,
                         .plan = plan,
                         .augment = "light",
                         .anchors = {.sizes = {32, 64, 128, 256, 512}},
                         .foreground_iou = foreground_iou,
                         .all_options = {{"augment", "\"flip\""}}});
}

TEST(Preview, ShowsTheFirstSamplesAndCountsTheirBoxes) {
  const std::string page = page_of(4, 100);
  EXPECT_EQ(count_of(page, "data:image/jpeg"), 4U);
  EXPECT_EQ(count_of(page, "160 x 120 px"), 4U) << "in the captions";
  EXPECT_THAT(page, HasSubstr("2 boxes, 1 red"));
  EXPECT_THAT(page, HasSubstr("50.0 % of the boxes"));
  EXPECT_THAT(page, HasSubstr("--augment light"));
}

TEST(Preview, HasNoRedBoxesWhereAnchorsAreNotChosenByIou) {
  const std::string page = page_of(4, 100, std::nullopt);
  EXPECT_THAT(page, HasSubstr("2 boxes"));
  EXPECT_THAT(page, Not(HasSubstr(" red")));
  EXPECT_THAT(page, Not(HasSubstr("below IoU")));
}

TEST(Preview, OfATileTellsItsPlaceAndShowsPartialBoxesWithoutCountingThem) {
  const std::string plain = page_of(4, 100), page = page_of(4, 100, 0.5, TwoBoxes(true));
  EXPECT_THAT(page, HasSubstr("2 boxes, 1 red"));
  EXPECT_THAT(page, HasSubstr("50.0 % of the boxes"));
  EXPECT_THAT(page, HasSubstr("Dashed: "));
  EXPECT_THAT(page, HasSubstr("image 70, tile 160x120+640+1280, step 1: "));
  EXPECT_THAT(plain, Not(HasSubstr("Dashed: ")));
}

// Five images in steps of two: the sixth place is padding, which is not a sample.
TEST(Preview, EndsWithTheRunAndLeavesOutPadding) {
  EXPECT_EQ(count_of(page_of(100, 3), "data:image/jpeg"), 5U);
  EXPECT_EQ(count_of(page_of(7, 100), "data:image/jpeg"), 7U) << "on into the second epoch";
}

TEST(Preview, GivesBackThePixels) {
  Image image(7, 5);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<std::uint8_t>(i * 37 % 256);
  }
  std::vector<float> planes(3 * 8 * 6);
  resize_normalise(image, {.width = 7, .height = 5, .row_stride = 8, .plane_stride = 48}, {},
                   planes.data());
  const Image back = image_from(
      {.values = planes.data(), .row_stride = 8, .plane_stride = 48, .size = {7, 5}}, {});
  EXPECT_EQ(back.rgb, image.rgb);
}

}  // namespace
}  // namespace retina
