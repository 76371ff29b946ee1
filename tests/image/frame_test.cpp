#include "shared/image/frame.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "shared/numeric/random.h"

namespace retina {
namespace {

constexpr FrameRule square(int side_px, int shorter_px) {
  return {.framing = Framing::kSquare, .min_side_px = side_px, .max_side_px = shorter_px};
}

Image random_image(const ImageSize& size) {
  const RandomStream random{.seed = 4, .use = RandomUse::kTest};
  Image image(size.width, size.height);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<std::uint8_t>(random.below(i, 256));
  }
  return image;
}

// [3, height, width] of the whole image, resized.
std::vector<float> resized(const Image& image, const ImageSize& to) {
  const std::int64_t plane = std::int64_t{to.width} * to.height;
  std::vector<float> planes(static_cast<std::size_t>(3 * plane));
  resize_normalise(
      image,
      {.width = to.width, .height = to.height, .row_stride = to.width, .plane_stride = plane}, {},
      planes.data());
  return planes;
}

struct Case {
  ImageSize size;
  int side_px = 0, shorter_px = 0;
  ImageSize resized = {};  // what torchvision's Resize(shorter_px) makes of it
  int left = 0, top = 0;   // where its CenterCrop(side_px) begins
};

class MiddleSquare : public testing::TestWithParam<Case> {};

TEST_P(MiddleSquare, IsTheCentreCropOfTheResizedImage) {
  const Case& one = GetParam();
  const Image image = random_image(one.size);
  const std::vector<float> whole = resized(image, one.resized);
  const int side = one.side_px;
  const std::int64_t plane = std::int64_t{side} * side;
  std::vector<float> got(static_cast<std::size_t>(3 * plane));
  warp_normalise(image, {.width = side, .height = side, .row_stride = side, .plane_stride = plane},
                 {.source_of = middle_square(one.size, square(side, one.shorter_px))}, {},
                 got.data());
  double worst = 0;
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const std::size_t from = static_cast<std::size_t>(
            (channel * one.resized.height + one.top + y) * one.resized.width + one.left + x);
        const std::size_t to = static_cast<std::size_t>((channel * side + y) * side + x);
        worst = std::max(worst, std::abs(static_cast<double>(whole[from]) - got[to]));
      }
    }
  }
  EXPECT_LT(worst, 2e-5);
}

// Offsets by Python's round(), which takes halves to even.
INSTANTIATE_TEST_SUITE_P(, MiddleSquare,
                         testing::Values(Case{.size = {64, 48},
                                              .side_px = 28,
                                              .shorter_px = 32,
                                              .resized = {42, 32},
                                              .left = 7,
                                              .top = 2},
                                         Case{.size = {37, 90},
                                              .side_px = 24,
                                              .shorter_px = 24,
                                              .resized = {24, 58},
                                              .left = 0,
                                              .top = 17},
                                         Case{.size = {50, 50},
                                              .side_px = 27,
                                              .shorter_px = 32,
                                              .resized = {32, 32},
                                              .left = 2,
                                              .top = 2},
                                         Case{.size = {7, 9},
                                              .side_px = 20,
                                              .shorter_px = 25,
                                              .resized = {25, 32},
                                              .left = 2,
                                              .top = 6}));

TEST(Frame, OfASquareIsTheSquareAndOfAWholeImageItsResizedSizePadded) {
  EXPECT_EQ(framed_size({640, 480}, square(224, 256)).width, 224);
  EXPECT_EQ(framed_size({640, 480}, square(224, 256)).height, 224);
  EXPECT_EQ(padded_size({640, 480}, square(30, 30)).width, 30) << "not padded to 32";
  const FrameRule whole = {.min_side_px = 100, .max_side_px = 160};
  EXPECT_EQ(framed_size({640, 480}, whole).width, 133);
  EXPECT_EQ(padded_size({640, 480}, whole).width, 160);
  EXPECT_EQ(padded_size({640, 480}, whole).height, 128);
}

TEST(Frame, StretchesWholeImagesToASquare) {
  const FrameRule rule = {.framing = Framing::kStretched, .min_side_px = 200, .max_side_px = 200};
  for (const ImageSize image : {ImageSize{640, 480}, ImageSize{3, 900}}) {
    EXPECT_EQ(framed_size(image, rule).width, 200);
    EXPECT_EQ(framed_size(image, rule).height, 200);
    EXPECT_EQ(padded_size(image, rule).width, 224);
    EXPECT_EQ(padded_size(image, rule).height, 224);
  }
}

}  // namespace
}  // namespace retina
