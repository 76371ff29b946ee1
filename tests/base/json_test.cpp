#include "shared/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"
#include "shared/numeric/random.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

TEST(JsonFile, NamesLineAndColumnOfASyntaxError) {
  const std::string message = refusal_of(
      ErrorKind::kData, [] { JsonFile::parse("{\n  \"a\": 1,\n  \"b\": x\n}", "f.json"); });
  EXPECT_THAT(message, HasSubstr("f.json"));
  EXPECT_THAT(message, HasSubstr("line 3, column 8"));
}

TEST(JsonFile, SaysThatACutFileEndsTooEarly) {
  try {
    JsonFile::parse("{\"a\": [1, 2", "f.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("byte 11"));
    EXPECT_THAT(error.hint(), HasSubstr("ends too early"));
  }
}

TEST(JsonFile, RefusesDeepNestingWithoutOverflowingTheStack) {
  EXPECT_THAT(refusal_of(ErrorKind::kData,
                         [] { JsonFile::parse(std::string(10'000'000, '['), "deep.json"); }),
              HasSubstr("deep.json"));
}

TEST(JsonFile, SaysThatAMissingFileIsMissing) {
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [] { JsonFile::read("/nowhere/f.json"); }),
              HasSubstr("/nowhere/f.json"));
}

TEST(JsonView, NamesThePlaceOfAWrongType) {
  const JsonFile file = JsonFile::parse(R"({"shards": [{"records": "x"}]})", "m.json");
  const std::string message = refusal_of(ErrorKind::kData, [&] {
    file.root().at("shards").at(std::size_t{0}).at("records").as_int();
  });
  EXPECT_THAT(message, HasSubstr("m.json"));
  EXPECT_THAT(message, HasSubstr("shards[0]"));
  EXPECT_THAT(message, HasSubstr("records"));
  EXPECT_THAT(message, HasSubstr("got \"x\", want an integer"));
}

TEST(JsonView, NamesAMissingKeyAndAnIndexOutOfRange) {
  const JsonFile file = JsonFile::parse(R"({"list": [1]})", "m.json");
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { file.root().at("b"); }),
              HasSubstr("\"b\" is missing"));
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { file.root().at("list").at(1); }),
              HasSubstr("want at least 2"));
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { file.root().at("list").at("b"); }),
              HasSubstr("want an object"));
}

TEST(JsonView, TellsIntegersFromFractions) {
  const JsonFile file = JsonFile::parse("[1.5, -1, 18446744073709551615, true]", "m.json");
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { file.root().at(std::size_t{0}).as_int(); }),
              HasSubstr("want an integer"));
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { file.root().at(1).as_uint(); }),
              HasSubstr("want an integer >= 0"));
  EXPECT_EQ(file.root().at(2).as_uint(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { file.root().at(3).as_double(); }),
              HasSubstr("want a number"));
}

TEST(JsonWriter, WritesNumbersThatReadBackEqual) {
  const double values[] = {0.1, 1.0 / 3.0, 1e-310, 12345678.9, -0.0};
  JsonWriter json;
  json.begin_array();
  for (const double value : values) json.value(value);
  json.end_array();
  const JsonFile file = JsonFile::parse(json.text(), "text");
  for (std::size_t i = 0; i < std::size(values); ++i) {
    EXPECT_EQ(file.root().at(i).as_double(), values[i]);
  }
}

// RapidJSON's exact reader of doubles would look beyond the end of a table.
TEST(JsonFile, ReadsNumbersWithDigitsFarBehindThePoint) {
  const std::string zeros(41, '0');
  for (const std::string& number : std::vector<std::string>{
           "0." + zeros + "9e-280", "0." + zeros + "9e-310", "0." + zeros + "e-310",
           "0." + std::string(400, '0') + "1", "-1e-400", "1e-99999999999", "0e-9", "4.25",
           "2.2250738585072014e-308", "1e-300", "18446744073709551616", "-0.0"}) {
    const JsonFile file = JsonFile::parse(cat("[", number, "]"), "text");
    EXPECT_EQ(file.root().at(std::size_t{0}).as_double(), std::strtod(number.c_str(), nullptr))
        << number;
  }
  const JsonFile integers = JsonFile::parse("[-9223372036854775808, 18446744073709551615]", "text");
  EXPECT_EQ(integers.root().at(std::size_t{0}).as_int(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(integers.root().at(1).as_uint(), std::numeric_limits<std::uint64_t>::max());
}

TEST(JsonFile, RefusesNumbersBeyondF64) {
  for (const char* number : {"1e400", "-1e309", "1e99999999999"}) {
    EXPECT_THAT(refusal_of(ErrorKind::kData,
                           [&] { JsonFile::parse(cat("{\"a\": [2, ", number, "]}"), "text"); }),
                HasSubstr("not valid JSON at line 1, column 11, byte 10 (Number too big"))
        << number;
  }
}

TEST(JsonWriter, WritesNotFiniteNumbersAsNull) {
  JsonWriter json;
  json.begin_array().value(std::nan("")).value(HUGE_VAL).end_array();
  EXPECT_EQ(json.text(), "[null,null]");
}

TEST(JsonWriter, EscapesText) {
  JsonWriter json;
  json.begin_object().field("a\"b", std::string("x\n\t\\")).field("yes", true).end_object();
  EXPECT_EQ(json.text(), "{\"a\\\"b\":\"x\\n\\t\\\\\",\"yes\":true}");
  EXPECT_EQ(JsonFile::parse(json.text(), "text").root().at("a\"b").as_string(), "x\n\t\\");
}

TEST(JsonWriter, PrettyTextHoldsTheSameValues) {
  JsonWriter json;
  json.begin_object().field("pi", 3.141592653589793).key("list").begin_array().value(1);
  json.value(2).end_array().end_object();
  const std::string pretty = json.pretty_text();
  EXPECT_EQ(pretty, "{\n  \"pi\": 3.141592653589793,\n  \"list\": [1, 2]\n}\n");
}

// Any bytes: names of files and classes come from foreign places.
TEST(JsonWriter, IsAlwaysUtf8ThatReadsBack) {
  const RandomStream random{.seed = 17, .use = RandomUse::kTest};
  std::uint64_t place = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::uint64_t left = random.bits(place++) % 12; left > 0; --left) {
      text += static_cast<char>(random.bits(place++) % 256);
    }
    JsonWriter json;
    json.begin_object().field(text, text).end_object();
    for (const std::string& written : {json.text(), json.pretty_text()}) {
      ASSERT_TRUE(is_utf8(written)) << "seed 17, round " << round;
      const JsonFile file = JsonFile::parse(written, "text");
      const auto& member = *file.root().raw().MemberBegin();
      EXPECT_EQ(member.value.GetString(), std::string(as_utf8(text).c_str()));
      EXPECT_EQ(std::string(member.name.GetString(), member.name.GetStringLength()), as_utf8(text));
    }
  }
}

TEST(JsonFile, SkipsAByteOrderMark) {
  EXPECT_EQ(JsonFile::parse("\xEF\xBB\xBF[3]", "f.json").root().at(std::size_t{0}).as_int(), 3);
  EXPECT_THAT(refusal_of(ErrorKind::kData, [] { JsonFile::parse("\xEF\xBB\xBF[x]", "f.json"); }),
              HasSubstr("byte 4"));
}

TEST(JsonFile, SaysHowToMendCommonMistakes) {
  const auto hint = [](const std::string& text) {
    try {
      JsonFile::parse(text, "f.json");
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(hint("{'a': 1}"), HasSubstr("json.dump()"));
  EXPECT_THAT(hint("[1, ]"), HasSubstr("comma"));
  EXPECT_THAT(hint("{\"a\": 1, }"), HasSubstr("comma"));
  EXPECT_THAT(hint("{\"a\": 1}\n{\"a\": 2}\n"), HasSubstr("JSON Lines"));
  EXPECT_EQ(hint("[1] x"), "");
}

}  // namespace
}  // namespace retina
