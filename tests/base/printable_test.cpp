#include "shared/base/printable.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Escaped, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(escaped("cat\x1b[2J\n\t\r\x7f"), "cat\\x1b[2J\\n\\t\\x0d\\x7f");
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m")
      << "C1: a terminal takes it for ESC [";
}

TEST(Escaped, OtherTextOfAnyLanguageStaysButForInvisibleCharacters) {
  for (const char* name : {"cat", "\xf0\x9f\x90\xb1", "a\\b", "", "\u061b", "\u200a", "\u2010",
                           "\u202f", "\u206a", "\u00e9"}) {
    EXPECT_EQ(escaped(name), name);
  }
  for (const char* hidden :
       {"\u061c", "\u200b", "\u200f", "\u2028", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff"}) {
    EXPECT_EQ(escaped(hidden).substr(0, 2), "\\x");
  }
}

TEST(Escaped, ALongNameIsCutAtAWholeCharacter) {
  std::string name;
  for (int i = 0; i < 1000; ++i) name += "\xe7\x8c\xab";
  const std::string shown = escaped(name);
  EXPECT_EQ(shown.size(), kNameCharacters * 3 + 3);
  EXPECT_EQ(shown, name.substr(0, kNameCharacters * 3) + "\xe2\x80\xa6");
  EXPECT_EQ(escaped(name, kWholeText), name);
}

TEST(AsUtf8, OnlyBytesThatAreNotUtf8AreWrittenOut) {
  EXPECT_EQ(as_utf8("a\nb \xc3\xa9 x\xff.jpg"), "a\nb \xc3\xa9 x\\xff.jpg");
  // Longer than it must be, half of a pair, beyond the last character: JSON readers refuse them.
  EXPECT_EQ(as_utf8("\xe0\x80\x80"), "\\xe0\\x80\\x80");
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(as_utf8("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf");
}

TEST(LibraryReason, IsOneShortLineWithoutPlacesInTheLibrary) {
  for (const auto& [message, reason] :
       {std::pair{"Exception from src/inference/src/cpp/core.cpp:105:\n"
                  "Check 'model' failed at src/frontends/onnx/frontend.cpp:12:\n"
                  "FrontEnd API failed with OpConversionFailure:\n"
                  "While validating ONNX node '<Node(Add): y>': shapes differ.\n\n",
                  "FrontEnd API failed with OpConversionFailure; "
                  "While validating ONNX node '<Node(Add): y>': shapes differ"},
        {"Exception from src/a.cpp:7: Unable to read the model: m.onnx",
         "Unable to read the model: m.onnx"},
        {"[enforce fail at inline_container.cc:145] . not a ZIP archive", "not a ZIP archive"},
        {"The size of a (3) must match b (4)\n"
         "Exception raised from infer_size_impl at ExpandUtils.cpp:31\n"
         "frame #0: c10::Error::Error(...)\n",
         "The size of a (3) must match b (4)"},
        {"read file.cpp: it is gone", "read file.cpp: it is gone"},
        {"", "no reason given"}}) {
    EXPECT_EQ(library_reason(message), reason);
  }
  EXPECT_EQ(library_reason(std::string(10'000, 'x')), std::string(300, 'x') + "...");
}

TEST(OneLine, ControlCharactersBecomeOneSpaceAndNothingAtTheEnds) {
  EXPECT_EQ(one_line(" big cat "), " big cat ");
  EXPECT_EQ(one_line("\n\tbig\r\n\x7F"
                     "cat\xC2\x85"),
            "big cat");
  EXPECT_EQ(one_line("\u00e9\xFF\u202e"), "\u00e9\xFF\u202e");
}

}  // namespace
}  // namespace retina
