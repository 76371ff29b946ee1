#include "shared/image/draw.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace retina {
namespace {

constexpr Colour kRed = {.red = 255, .green = 0, .blue = 0};

bool is_red(const Image& image, int x, int y) {
  const std::uint8_t* pixel = image.pixel(x, y);
  return pixel[0] == 255 && pixel[1] == 0 && pixel[2] == 0;
}

int red_count(const Image& image) {
  int count = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) count += is_red(image, x, y) ? 1 : 0;
  }
  return count;
}

TEST(Draw, BoxColoursItsOutlineOnly) {
  Image image(20, 16);
  draw_box(image, {4, 3, 14, 11}, {.colour = kRed, .thickness_px = 1}, "");
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 20; ++x) {
      const bool inside = x >= 4 && x < 14 && y >= 3 && y < 11;
      const bool edge = inside && (x == 4 || x == 13 || y == 3 || y == 10);
      ASSERT_EQ(is_red(image, x, y), edge) << x << ',' << y;
    }
  }
}

TEST(Draw, LinesAndNamesFollowTheBox) {
  const auto drawn = [](double side, const std::string& text) {
    Image image(2000, 2000);
    draw_box(image, {500, 500, 500 + side, 500 + side}, {.colour = kRed}, text);
    return image;
  };
  // Two lines of 2 px on each side leave the object to see.
  EXPECT_EQ(red_count(drawn(20, "")), 20 * 20 - 16 * 16);
  EXPECT_EQ(red_count(drawn(6, "car")), 6 * 6 - 4 * 4) << "smaller than its name";
  const auto name_height = [&](double side) {
    const Image image = drawn(side, "car");
    int top = 500;
    while (is_red(image, 500, top - 1)) --top;
    return 500 - top - 1;  // without the padding
  };
  EXPECT_EQ(name_height(20), text_height_px(1));
  EXPECT_EQ(name_height(100) / text_height_px(1), 100 / 2 / text_height_px(1));
  EXPECT_EQ(name_height(1000) / text_height_px(1), 8) << "of a large box as tall as ever";
}

TEST(Draw, ManyBoxesOfOneClassNeedNoNames) {
  std::vector<int> labels(60, 3);
  EXPECT_TRUE(are_worth_names(labels, std::identity()));
  labels.push_back(3);
  EXPECT_FALSE(are_worth_names(labels, std::identity()));
  labels.push_back(4);
  EXPECT_TRUE(are_worth_names(labels, std::identity()));
}

TEST(Draw, AnyBoxIsSafe) {
  const double huge = 1e300, none = std::numeric_limits<double>::quiet_NaN();
  const double endless = std::numeric_limits<double>::infinity();
  for (const std::array<double, 4>& box : {std::array<double, 4>{-huge, -huge, huge, huge},
                                           {none, none, none, none},
                                           {-endless, 0, endless, endless},
                                           {50, 50, 10, 10},
                                           {3, 3, 3, 3}}) {
    Image image(9, 7);
    draw_box(image, box, {.colour = kRed}, "a label longer than the image is wide");
    EXPECT_GT(red_count(image), 0);
  }
  Image empty;
  draw_box(empty, {0, 0, 5, 5}, {.colour = kRed}, "x");
}

TEST(Draw, TextIsAsWideAsItSays) {
  EXPECT_EQ(text_width_px("", 2), 0);
  EXPECT_EQ(text_width_px("H", 1), 5);
  EXPECT_EQ(text_width_px("HH", 2), 22);
  EXPECT_EQ(text_width_px("\xC3\xA9t", 1), 11) << "a UTF-8 character is one cell";
  Image image(40, 20);
  draw_text(image, 3, 2, "HH", {.colour = kRed, .scale = 2});
  EXPECT_TRUE(is_red(image, 3, 2));
  EXPECT_TRUE(is_red(image, 3 + 21, 2 + 13));
  EXPECT_FALSE(is_red(image, 3 + 22, 2));
  EXPECT_FALSE(is_red(image, 3, 2 + 14));
}

}  // namespace
}  // namespace retina
