#include "shared/data/record_picture.h"

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
    decode_picture(record, "shards", decoder, image);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused";
  return {ErrorKind::kInternal, ""};
}

TEST(RecordPicture, IsThePictureOfTheRecord) {
  const std::string jpeg = encode_jpeg(Image(20, 10), 90);
  JpegDecoder decoder;
  Image image;
  decode_picture({.image_id = 7, .width = 20, .height = 10, .picture = jpeg}, "shards", decoder,
                 image);
  EXPECT_EQ(image.width, 20);
  EXPECT_EQ(image.height, 10);
}

TEST(RecordPicture, OfRawPixelsIsThosePixels) {
  JpegDecoder decoder;
  Image image(9, 9);
  decode_picture({.width = 2, .height = 1, .encoding = PictureEncoding::kRaw, .picture = "abcdef"},
                 "shards", decoder, image);
  EXPECT_EQ(image.width, 2);
  EXPECT_EQ(image.height, 1);
  EXPECT_EQ(image.rgb, std::vector<std::uint8_t>({'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(RecordPicture, OfAnotherSizeIsRefused) {
  const std::string jpeg = encode_jpeg(Image(20, 10), 90);
  const Error error = refusal({.image_id = 7, .width = 10, .height = 20, .picture = jpeg});
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_STREQ(error.what(), "shards: the picture of image 7: wrong size (got 20x10, want 10x20)");
}

TEST(RecordPicture, ThatDoesNotDecodeIsRefused) {
  const Error error = refusal({.image_id = 7, .width = 10, .height = 20, .picture = "no picture"});
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_THAT(error.what(), HasSubstr("shards: the picture of image 7: "));
}

}  // namespace
}  // namespace retina
