#include "shared/data/record_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

TEST(RecordImage, IsTheImageOfTheRecord) {
  const std::string jpeg = encode_jpeg(Image(20, 10), 90);
  JpegDecoder decoder;
  Image image;
  decode_image({.image_id = 7, .width = 20, .height = 10, .image = jpeg}, "shards", decoder, image);
  EXPECT_EQ(image.width, 20);
  EXPECT_EQ(image.height, 10);
}

TEST(RecordImage, OfRawPixelsIsThosePixels) {
  JpegDecoder decoder;
  Image image(9, 9);
  decode_image({.width = 2, .height = 1, .encoding = ImageEncoding::kRaw, .image = "abcdef"},
               "shards", decoder, image);
  EXPECT_EQ(image.width, 2);
  EXPECT_EQ(image.height, 1);
  EXPECT_EQ(image.rgb, std::vector<std::uint8_t>({'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(RecordImage, OfAnotherSizeOrThatDoesNotDecodeIsRefused) {
  const std::string jpeg = encode_jpeg(Image(20, 10), 90);
  for (const std::string_view bytes : {std::string_view(jpeg), std::string_view("no image")}) {
    JpegDecoder decoder;
    Image image;
    const Record record{.image_id = 7, .width = 10, .height = 20, .image = bytes};
    EXPECT_THAT(
        refusal_of(ErrorKind::kData, [&] { decode_image(record, "shards", decoder, image); }),
        HasSubstr("shards: the image of image 7: "));
  }
}

}  // namespace
}  // namespace retina
