#include "shared/onnx/wire.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

using namespace std::string_literals;

TEST(Wire, ReadsFieldsInOrder) {
  // 1: 300, 2: "ab", 3: 4 bytes, 4: 8 bytes.
  const std::string bytes = "\x08\xac\x02\x12\x02"s + "ab\x1d" + "1234!" + "12345678";
  WireReader reader(bytes);
  auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 1U);
  EXPECT_EQ(field->varint, 300U);
  EXPECT_FALSE(field->has_length);
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_TRUE(field->has_length);
  EXPECT_EQ(field->bytes, "ab");
  EXPECT_EQ(field->encoded, "\x12\x02"s + "ab");
  EXPECT_EQ(reader.next()->bytes, "1234");
  EXPECT_EQ(reader.next()->bytes, "12345678");
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(first_field(bytes, 3), "1234");
  EXPECT_EQ(first_field(bytes, 5), "");
}

TEST(Wire, WhatIsNotAFieldEndsReading) {
  for (const std::string& bytes :
       {"\x0b\x0c"s,                                              // a group
        "\x0f"s,                                                  // wire type 7
        "\x02\x00"s,                                              // field 0
        "\x12\x05"s + "ab",                                       // longer than what is there
        "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,          // 2^64 - 1 bytes
        "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"s,          // more than 64 bits
        "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"s,  // a number that never ends
        "\x1d"s + "123", "\x21"s + "1234567", "\x08"s, "\xff\xff\xff\xff\xff\x01\x01"s}) {
    EXPECT_FALSE(WireReader(bytes).next()) << bytes;
  }
}

TEST(Wire, APrefixIsTheShortestForm) {
  EXPECT_EQ(wire_prefix(5, 0), "\x2a\0"s);
  EXPECT_EQ(wire_prefix(14, 300), "\x72\xac\x02"s);
}

}  // namespace
}  // namespace retina
