#include "shared/shard/quarantine.h"

#include <gtest/gtest.h>

#include "tests/shard/small_set.h"

namespace retina {
namespace {

TEST(Quarantine, ReadsBackAsItWasWritten) {
  const std::vector<QuarantinedImage> images{
      {.image_id = 1, .file_name = "a \"quoted\"\n.jpg", .kind = "damaged", .reason = "cut short"},
      {.image_id = -2, .file_name = "b.jpg", .kind = "missing", .reason = "not there"}};
  EXPECT_EQ(decode_quarantine(encode_quarantine(images), "q"), images);
  EXPECT_EQ(encode_quarantine({}), "");
  EXPECT_TRUE(decode_quarantine("", "q").empty());
}

TEST(Quarantine, NamesTheDamagedLine) {
  std::string message;
  const std::string text = encode_quarantine({{}, {}}) + "{\"image_id\": 7";
  EXPECT_EQ(error_kind([&] { decode_quarantine(text, "q.jsonl"); }, &message), ErrorKind::kData);
  EXPECT_NE(message.find("q.jsonl: line 3"), std::string::npos) << message;
}

}  // namespace
}  // namespace retina
