#include "shared/data/record_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"

namespace retina {
namespace {

using testing::HasSubstr;

Error refusal(const Record& record) {
  JpegDecoder decoder;
  Image image;
  try {
    decode_image(record, "shards", decoder, image);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused";
  return {ErrorKind::kInternal, ""};
}

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

TEST(RecordImage, OfAnotherSizeIsRefused) {
  const std::string jpeg = encode_jpeg(Image(20, 10), 90);
  const Error error = refusal({.image_id = 7, .width = 10, .height = 20, .image = jpeg});
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_STREQ(error.what(), "shards: the image of image 7: wrong size (got 20x10, want 10x20)");
}

TEST(RecordImage, ThatDoesNotDecodeIsRefused) {
  const Error error = refusal({.image_id = 7, .width = 10, .height = 20, .image = "no image"});
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_THAT(error.what(), HasSubstr("shards: the image of image 7: "));
}

}  // namespace
}  // namespace retina
