#include "shared/base/printable.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Printable, AMessageStaysOneShortLineOfAscii) {
  EXPECT_EQ(printable("a\nb\x1b[2J\xc3\xa9"), "a?b?[2J??");
  EXPECT_EQ(printable(std::string(100, 'x')), std::string(80, 'x'));
}

TEST(Escaped, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(escaped("cat\x1b[2J\n\t\r\x7f"), "cat\\x1b[2J\\n\\t\\x0d\\x7f");
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m")
      << "C1: a terminal takes it for ESC [";
}

TEST(Escaped, NamesOfAnyLanguageStay) {
  for (const char* name :
       {"cat", "\xc3\xa9l\xc3\xa9phant", "\xe7\x8c\xab", "\xf0\x9f\x90\xb1", "a\\b", ""}) {
    EXPECT_EQ(escaped(name), name);
  }
}

TEST(Escaped, BytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(escaped("a\xff"
                    "b"),
            "a\\xffb");
  EXPECT_EQ(escaped("\xe7\x8c"), "\\xe7\\x8c") << "a character cut short";
}

TEST(Escaped, ALongNameIsCutAtAWholeCharacter) {
  std::string name;
  for (int i = 0; i < 1'000'000; ++i) name += "\xe7\x8c\xab";
  const std::string shown = escaped(name);
  EXPECT_EQ(shown.size(), kNameCharacters * 3 + 3);
  EXPECT_EQ(shown, name.substr(0, kNameCharacters * 3) + "\xe2\x80\xa6");
  const std::string just_fits(kNameCharacters, 'x');
  EXPECT_EQ(escaped(just_fits), just_fits);
  EXPECT_EQ(escaped(name, kWholeText), name);
}

TEST(AsUtf8, OnlyBytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(as_utf8("a\nb \xc3\xa9"), "a\nb \xc3\xa9");
  EXPECT_EQ(as_utf8("x\xff.jpg"), "x\\xff.jpg");
  // Longer than it must be, half of a pair, beyond the last character: JSON readers refuse them.
  EXPECT_EQ(as_utf8("\xe0\x80\x80"), "\\xe0\\x80\\x80");
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(as_utf8("\xf0\x80\x80\x80"), "\\xf0\\x80\\x80\\x80");
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(as_utf8("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf");
}

}  // namespace
}  // namespace retina
