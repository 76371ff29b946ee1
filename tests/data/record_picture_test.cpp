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
  decode_picture({.image_id = 7, .width = 20, .height = 10, .jpeg = jpeg}, "shards", decoder,
                 image);
  EXPECT_EQ(image.width, 20);
  EXPECT_EQ(image.height, 10);
}

TEST(RecordPicture, OfAnotherSizeIsRefused) {
  const std::string jpeg = encode_jpeg(Image(20, 10), 90);
  const Error error = refusal({.image_id = 7, .width = 10, .height = 20, .jpeg = jpeg});
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_STREQ(error.what(), "shards: the picture of image 7: wrong size (got 20x10, want 10x20)");
}

TEST(RecordPicture, ThatDoesNotDecodeIsRefused) {
  const Error error = refusal({.image_id = 7, .width = 10, .height = 20, .jpeg = "no picture"});
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_THAT(error.what(), HasSubstr("shards: the picture of image 7: "));
}

}  // namespace
}  // namespace retina
