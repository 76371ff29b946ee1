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

TEST(LibraryReason, LeavesOutWhereInTheLibrary) {
  EXPECT_EQ(library_reason("Exception from src/inference/src/cpp/core.cpp:105:\n"
                           "Check 'model' failed at src/frontends/onnx/frontend.cpp:12:\n"
                           "FrontEnd API failed with OpConversionFailure:\n"
                           "While validating ONNX node '<Node(Add): y>': shapes differ.\n\n"),
            "FrontEnd API failed with OpConversionFailure; "
            "While validating ONNX node '<Node(Add): y>': shapes differ");
  EXPECT_EQ(library_reason("Exception from src/a.cpp:7: Unable to read the model: m.onnx"),
            "Unable to read the model: m.onnx");
  EXPECT_EQ(library_reason("[enforce fail at inline_container.cc:145] . PytorchStreamReader failed "
                           "reading zip archive: not a ZIP archive"),
            "PytorchStreamReader failed reading zip archive: not a ZIP archive");
  EXPECT_EQ(library_reason("model.cpp:12: no such layer"), "no such layer");
}

TEST(LibraryReason, EndsBeforeABacktrace) {
  EXPECT_EQ(library_reason("The size of a (3) must match b (4)\n"
                           "Exception raised from infer_size_impl at ExpandUtils.cpp:31\n"
                           "frame #0: c10::Error::Error(...)\n"),
            "The size of a (3) must match b (4)");
}

TEST(LibraryReason, IsOneShortLine) {
  EXPECT_EQ(library_reason(""), "no reason given");
  EXPECT_EQ(library_reason("Exception from src/a.cpp:105:\n"), "no reason given");
  const std::string long_one = library_reason(std::string(10'000, 'x'));
  EXPECT_EQ(long_one.size(), 303U);
  EXPECT_TRUE(long_one.ends_with("..."));
}

TEST(LibraryReason, KeepsWhatHasNoPlace) {
  EXPECT_EQ(library_reason("key: value"), "key: value");
  EXPECT_EQ(library_reason("read file.cpp: it is gone"), "read file.cpp: it is gone");
}

TEST(Escaped, WhatTurnsALineOrHidesInItIsShown) {
  EXPECT_EQ(escaped("cat\u202egnp.jpg"), "cat\\xe2\\x80\\xaegnp.jpg");
  for (const char* hidden :
       {"\u061c", "\u200b", "\u200f", "\u2028", "\u202a", "\u2066", "\u2069", "\ufeff"}) {
    EXPECT_EQ(escaped(hidden).substr(0, 2), "\\x");
  }
  for (const char* shown :
       {"\u061b", "\u200a", "\u2010", "\u202f", "\u206a", "\u00e9", "\U0001f600"}) {
    EXPECT_EQ(escaped(shown), shown);
  }
}

TEST(OneLine, ControlCharactersBecomeOneSpaceAndNothingAtTheEnds) {
  EXPECT_EQ(one_line("cat"), "cat");
  EXPECT_EQ(one_line(" big cat "), " big cat ");
  EXPECT_EQ(one_line("\n\tbig\r\n\x7F"
                     "cat\xC2\x85"),
            "big cat");
  EXPECT_EQ(one_line("\n"), "");
  EXPECT_EQ(one_line("\u00e9\xFF\u202e"), "\u00e9\xFF\u202e");
}

}  // namespace
}  // namespace retina
