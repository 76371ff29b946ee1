#include "shared/base/text_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/refusal.h"

namespace retina {
namespace {

using namespace std::string_literals;

const std::string kCar = "\xE6\xB1\xBD\xE8\xBD\xA6";  // in UTF-8

std::string xml(const std::string& encoding, const std::string& name) {
  return "<?xml version=\"1.0\" encoding=\"" + encoding + "\"?>\n<name>" + name + "</name>\n";
}

std::string decoded(const std::string& bytes, EncodingIn where = EncodingIn::kNothing) {
  return decode_text(bytes, where, "a.txt");
}

// ASCII as UTF-16 or UTF-32, the low byte at `place` among `size` bytes.
std::string widened(const std::string& ascii, std::size_t size, std::size_t place) {
  std::string wide;
  for (const char c : ascii) {
    std::string character(size, '\0');
    character[place] = c;
    wide += character;
  }
  return wide;
}

TEST(IsUtf8, AcceptsOnlyUtf8) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xe7\x8c\xab"));
  for (const char* text : {"\xff", "caf\xe9", "\xed\xb3\xa9", "\xe7\x8c"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(TextEncoding, AnXmlDeclarationIsBelieved) {
  for (const auto& [encoding, bytes, text] :
       {std::tuple{"gb2312", "\xC6\xFB\xB3\xB5"s, kCar},
        {"GBK", "\xC6\xFB\xB3\xB5"s, kCar},
        {"Shift_JIS", "\x94\x4C"s, "\xE7\x8C\xAB"s},
        {"EUC-KR", "\xC2\xF7"s, "\xEC\xB0\xA8"s},
        {"windows-1252", "\x80"s, "\xE2\x82\xAC"s},
        {"ISO-8859-1", "\xE9"s, "\xC3\xA9"s},
        // A character of GBK in a file that says GB2312; a backslash in one that says Shift_JIS.
        {"gb2312", "\xE9\x46"s, "\xE9\x95\x95"s},
        {"shift_jis", "C:\\~"s, "C:\\~"s}}) {
    EXPECT_EQ(decoded(xml(encoding, bytes), EncodingIn::kXml), xml(encoding, text)) << encoding;
  }
  const std::string top = "<?xml version='1.0' encoding = 'windows-1258' ?>";
  EXPECT_EQ(decoded(top + "a\xEC", EncodingIn::kXml), top + "\xC3\xA1") << "waits for an accent";
}

TEST(TextEncoding, ACommentAtTheTopOfAYamlIsBelieved) {
  for (const std::string top : {"# -*- coding: gbk -*-\n", "#!x\n# vim: set fileencoding=gbk :\n",
                                "%YAML 1.2\n---\n# encoding: GBK\r\n", "\n# coding: gbk\n"}) {
    EXPECT_EQ(decoded(top + "names: [\xC6\xFB\xB3\xB5]\n", EncodingIn::kComment),
              top + "names: [" + kCar + "]\n");
  }
  const std::string below = "names: [a]\n# coding: gbk\n\xC6\xFB\n";
  EXPECT_EQ(decoded(below, EncodingIn::kComment), below);
  EXPECT_EQ(decoded("# coding: gbk\n\xC6\xFB\n"), "# coding: gbk\n\xC6\xFB\n")
      << "only where the format has such comments";
}

TEST(TextEncoding, ByteOrderMarksAreUnderstood) {
  const std::string text = xml("utf-16", "cat");
  for (const auto& [mark, size, place] : {std::tuple{"\xFF\xFE"s, 2U, 0U},
                                          {"\xFE\xFF"s, 2U, 1U},
                                          {"\xFF\xFE\0\0"s, 4U, 0U},
                                          {"\0\0\xFE\xFF"s, 4U, 3U},
                                          {"\xEF\xBB\xBF"s, 1U, 0U}}) {
    for (const EncodingIn where : {EncodingIn::kXml, EncodingIn::kNothing}) {
      EXPECT_EQ(decoded(mark + widened(text, size, place), where), text) << mark << size << place;
    }
  }
}

TEST(TextEncoding, Utf8UnderAnotherNameStays) {
  for (const char* name : {"UTF-8", "utf8", "US-ASCII", "utf-16", "Unicode", "ascii"}) {
    EXPECT_EQ(decoded(xml(name, kCar), EncodingIn::kXml), xml(name, kCar)) << name;
  }
  // An editor may have saved UTF-8 without touching the declaration.
  for (const char* name : {"gb2312", "ISO-8859-1", "klingon"}) {
    EXPECT_EQ(decoded(xml(name, kCar), EncodingIn::kXml), xml(name, kCar)) << name;
  }
  EXPECT_EQ(decoded(xml("windows-1252", "caf\xC3\xA9"), EncodingIn::kXml),
            xml("windows-1252", "caf\xC3\xA9"));
  // GB2312 and Shift_JIS that could be UTF-8 by their bytes.
  EXPECT_EQ(decoded(xml("shift_jis", "\xC8\xBA"), EncodingIn::kXml),
            xml("shift_jis", "\xEF\xBE\x88\xEF\xBD\xBA"));
  EXPECT_EQ(decoded(xml("gb2312", "\xCA\xB1"), EncodingIn::kXml), xml("gb2312", "\xE6\x97\xB6"));
}

TEST(TextEncoding, BytesThatCannotBeDecodedAreNamedWithTheirLine) {
  for (const auto& [bytes, problem] :
       {std::pair{xml("gb2312", "\xC6\xFB\xFF\xFF"), "line 2: is not gb2312"},
        {xml("klingon", "\xFF"), "is not klingon"},
        {xml("gbk//IGNORE", "\xFF"), "is not gbk"},
        {"\xFF\xFE" + widened("a\nb", 2, 0) + "c", "line 2: is not UTF-16"}}) {
    const std::string& text = bytes;
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { decoded(text, EncodingIn::kXml); }),
                testing::HasSubstr(problem));
  }
}

TEST(TextEncoding, BytesThatAreNotUtf8AreNamedWithTheirLine) {
  const auto refused = [](const std::string& text, std::size_t line) {
    return refusal_of(ErrorKind::kData, [&] { require_utf8(text, "a.txt", line); });
  };
  require_utf8("", "a.txt");
  require_utf8("cat\n" + kCar, "a.txt");
  EXPECT_EQ(refused("a\nb\ncaf\xE9\r\nd", 7), "a.txt: line 9: is not UTF-8 (got \"caf\\xe9\")");
  EXPECT_EQ(refused("cat\0dog"s, 1), "a.txt: line 1: is not UTF-8 (got \"cat\\x00dog\")");
  EXPECT_EQ(refused(std::string(500, 'x') + "\xE9" + std::string(500, 'y'), 1),
            "a.txt: line 1: is not UTF-8 (got \"" + std::string(30, 'x') + "\\xe9yyyyyyyyy\")");
}

TEST(TextEncoding, CellsThatASpreadsheetComputesAreKnown) {
  for (const char* text : {"=1+1", "+cat", "-", "@SUM(A1)", "'=1", "''@"}) {
    EXPECT_TRUE(begins_formula(text)) << text;
  }
  for (const char* text : {"", "cat", "'", "'tis", "a=b", " =", "''", "'a="}) {
    EXPECT_FALSE(begins_formula(text)) << text;
  }
}

TEST(TextEncoding, LettersOfAnyScriptHaveACase) {
  EXPECT_EQ(lower_case("\xD0\x9A\xD0\x9E\xD0\xA2 \xC3\x84"), "\xD0\xBA\xD0\xBE\xD1\x82 \xC3\xA4");
  EXPECT_EQ(lower_case("CAT\xFF"), "CAT\xFF");
}

}  // namespace
}  // namespace retina
