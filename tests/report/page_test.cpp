// The page as text: what is put into it stays data. What pages show and do: page_kit_test.py, and
// tests/evaluate's report_page_test.py, class_page_test.py, page_policy_test.py.
#include "shared/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string_view>
#include <vector>

#include "shared/base/json.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><script>alert('1')</script><!--@SCRIPT@&\x01";
// SHA-256 of nothing.
constexpr EmbeddedText kNoScript{
    "",
    {"\xe3\xb0\xc4\x42\x98\xfc\x1c\x14\x9a\xfb\xf4\xc8\x99\x6f\xb9\x24\x27\xae\x41\xe4\x64\x9b\x93"
     "\x4c\xa4\x95\x99\x1b\x78\x52\xb8\x55",
     32}};

int occurrences(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// What stands between the tags of the script element with that id.
std::string script_content(const std::string& page, const std::string& id) {
  const std::string tag = "json\" id=\"" + id + "\">";
  const std::size_t begin = page.find(tag) + tag.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

// Every text of it is hostile.
std::string bad_page() {
  JsonWriter data;
  data.begin_object().field("name", kHostile).end_object();
  return render_page({.title = kHostile,
                      .subtitle = kHostile,
                      .summary = kHostile,
                      .data = data.pretty_text(),
                      .settings = {{kHostile, kHostile}},
                      .notes = {kHostile},
                      .jpegs = {{7, "\xff\xd8\xff jpeg"}}},
                     kNoScript);
}

TEST(Page, WhateverItIsGivenStaysData) {
  const std::string page = bad_page();
  EXPECT_EQ(occurrences(page, "<script"), 4);
  EXPECT_EQ(occurrences(page, "</script"), 4);
  EXPECT_EQ(occurrences(page, "<!--"), 0);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
}

TEST(Page, HoldsWhatItIsGivenUnchanged) {
  const std::string page = bad_page();
  const JsonFile file = JsonFile::parse(script_content(page, "page"), "page");
  EXPECT_EQ(file.root().at("data").at("name").as_string(), kHostile);
  EXPECT_EQ(file.root().at("notes").at(std::size_t{0}).as_string(), kHostile);
  EXPECT_EQ(file.root().at("settings").at(std::size_t{0}).at(std::size_t{1}).as_string(), kHostile);
}

TEST(Page, ShowsItsNumbersWithoutAScript) {
  const std::string page = render_page(
      {.title = "t", .subtitle = "s", .summary = "AP: 0.5 <h\xC3\xA9>", .data = "{}"}, kNoScript);
  EXPECT_THAT(page, HasSubstr("<h1>t</h1><p class=\"subtitle\">s</p>"));
  EXPECT_THAT(page, HasSubstr("<pre>AP: 0.5 &lt;h\xC3\xA9></pre></div></noscript>"));
}

TEST(Page, AllowsItsScriptsByTheirHashesAndNothingElse) {
  const std::string page = render_page({.title = "<", .data = "{}"}, kNoScript);
  EXPECT_TRUE(std::regex_search(
      page.substr(0, 1024),
      std::regex(
          "content=\"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
          "style-src 'unsafe-inline'; script-src 'sha256-[A-Za-z0-9+/]{43}=' "
          "'sha256-47DEQpj8HBSa\\+/TImW\\+5JCeuQeRkm5NMpJWZG3hSuFU='\">")));
  EXPECT_THAT(page.substr(0, 512), HasSubstr("<title>&lt;</title>"));
}

TEST(Page, NeedsNothingFromOutsideAndIsSmall) {
  const std::string page = render_page({.data = "{}"}, kNoScript);
  for (const char* part : {"https:", "src=\"", "<link", "url(", "@import", "fetch(", "innerHTML"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  EXPECT_LT(page.size(), 100'000U);
}

TEST(Page, ListsOptionsThatAreSet) {
  const auto settings = settings_of({{"lr", "0.1"}, {"unset", "null"}});
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_EQ(settings.front(), (std::pair<std::string, std::string>("lr", "0.1")));
}

}  // namespace
}  // namespace retina
