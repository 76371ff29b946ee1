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
    "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};

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

TEST(Page, EmbedsImagesByTheRfcsVectors) {
  const std::string page =
      render_page({.data = "{}",
                   .jpegs = {{1, "f"}, {2, "fo"}, {3, "foo"}, {4, "foobar"}, {5, "\xFF\xFE\xFD"}}},
                  kNoScript);
  const JsonFile images = JsonFile::parse(script_content(page, "images"), "images");
  for (const auto& [id, text] :
       {std::pair{"1", "Zg=="}, {"2", "Zm8="}, {"3", "Zm9v"}, {"4", "Zm9vYmFy"}, {"5", "//79"}}) {
    EXPECT_EQ(images.root().at(id).as_string(), std::string("data:image/jpeg;base64,") + text);
  }
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

TEST(Page, EveryElementIsClosed) {
  std::string page = bad_page();
  // What scripts and styles hold is none of HTML's.
  for (const std::string name : {"style", "script"}) {
    for (std::size_t at = page.find("<" + name); at != std::string::npos;
         at = page.find("<" + name, at + 1)) {
      const std::size_t begin = page.find('>', at) + 1;
      page.erase(begin, page.find("</" + name, begin) - begin);
    }
  }
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)[^>]*>");
  for (auto at = std::sregex_iterator(page.begin(), page.end(), tag); at != std::sregex_iterator();
       ++at) {
    const std::string name = (*at)[2];
    if (name == "meta") continue;
    if ((*at)[1].length() == 0) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    ASSERT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_THAT(open, testing::IsEmpty());
}

TEST(Page, ListsOptionsThatAreSet) {
  const auto settings = settings_of({{"lr", "0.1"}, {"unset", "null"}});
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_EQ(settings.front(), (std::pair<std::string, std::string>("lr", "0.1")));
}

}  // namespace
}  // namespace retina
