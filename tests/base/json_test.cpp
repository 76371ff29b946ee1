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

TEST(JsonFile, NamesThePlaceOfASyntaxError) {
  for (const auto& [text, place] :
       {std::pair{"{\n  \"a\": 1,\n  \"b\": x\n}", "line 3, column 8"},
        {"{\"a\": [1, 2", "byte 11"},
        {"\xEF\xBB\xBF[x]", "byte 4"},
        {"{\"a\": [2, 1e400]}", "line 1, column 11, byte 10 (Number too big"},
        {"{\"a\": [2, -1e309]}", "line 1, column 11, byte 10 (Number too big"}}) {
    const char* const json = text;
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { JsonFile::parse(json, "f.json"); }),
                testing::AllOf(testing::StartsWith("f.json: "), HasSubstr(place)));
  }
  EXPECT_EQ(JsonFile::parse("\xEF\xBB\xBF[3]", "f.json").root().at(std::size_t{0}).as_int(), 3);
}

TEST(JsonFile, RefusesDeepNestingWithoutOverflowingTheStack) {
  EXPECT_THAT(refusal_of(ErrorKind::kData,
                         [] { JsonFile::parse(std::string(10'000'000, '['), "deep.json"); }),
              HasSubstr("deep.json"));
}

TEST(JsonView, NamesThePlaceAndTheProblem) {
  const JsonFile file =
      JsonFile::parse(R"({"list": [{"n": "x"}, 1.5, -1, 18446744073709551615, true]})", "m.json");
  const JsonView root = file.root(), list = root.at("list");
  const auto refusal = [](const auto& use) { return refusal_of(ErrorKind::kData, use); };
  EXPECT_EQ(refusal([&] { list.at(std::size_t{0}).at("n").as_int(); }),
            "m.json: list[0]: n: got \"x\", want an integer");
  EXPECT_THAT(refusal([&] { root.at("b"); }), HasSubstr("\"b\" is missing"));
  EXPECT_THAT(refusal([&] { list.at(5); }), HasSubstr("want at least 6"));
  EXPECT_THAT(refusal([&] { list.at("b"); }), HasSubstr("want an object"));
  EXPECT_THAT(refusal([&] { list.at(1).as_int(); }), HasSubstr("want an integer"));
  EXPECT_THAT(refusal([&] { list.at(2).as_uint(); }), HasSubstr("want an integer >= 0"));
  EXPECT_EQ(list.at(3).as_uint(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_THAT(refusal([&] { list.at(4).as_double(); }), HasSubstr("want a number"));
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
  const JsonFile integers = JsonFile::parse("[-9223372036854775808, -0]", "text");
  EXPECT_EQ(integers.root().at(std::size_t{0}).as_int(), std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(std::signbit(integers.root().at(1).as_double()));
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

TEST(JsonWriter, WritesTextOnOneLineAndIndented) {
  JsonWriter json;
  json.begin_object().field("a\"b", "x\n\t\\").field("yes", true).field("pi", 3.141592653589793);
  json.key("list").begin_array().value(1).value(std::nan("")).value(HUGE_VAL).end_array();
  json.end_object();
  EXPECT_EQ(json.text(),
            R"({"a\"b":"x\n\t\\","yes":true,"pi":3.141592653589793,"list":[1,null,null]})");
  EXPECT_EQ(json.pretty_text(),
            "{\n  \"a\\\"b\": \"x\\n\\t\\\\\",\n  \"yes\": true,\n  \"pi\": 3.141592653589793,\n"
            "  \"list\": [1, null, null]\n}\n");
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

}  // namespace
}  // namespace retina
