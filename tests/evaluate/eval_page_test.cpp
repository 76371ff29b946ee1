// The pages as text: what is put into them stays data. What they show and do: report_page_test.py,
// class_page_test.py.
#include "evaluate/page/eval_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "shared/base/json.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kBad = "</script><script>alert('1')</script><!--@SCRIPT@&\x01";

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
  const std::string tag = "id=\"" + id + "\">";
  const std::size_t begin = page.find(tag) + tag.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

// Every text of it is hostile.
EvalPage bad_page() {
  JsonWriter metrics;
  metrics.begin_object().field("name", kBad).end_object();
  return {.subtitle = kBad,
          .metrics_json = metrics.pretty_text(),
          .settings = {{kBad, JsonWriter().value(kBad).text()}, {"unset", "null"}},
          .notes = {kBad},
          .jpegs = {{7, "\xff\xd8\xff jpeg"}}};
}

class EvalPages : public testing::TestWithParam<bool> {
 protected:
  static std::string render(const EvalPage& page) {
    return GetParam() ? render_classification_page(page) : render_detection_page(page);
  }
};

TEST_P(EvalPages, WhateverItIsGivenStaysData) {
  const std::string page = render(bad_page());
  EXPECT_EQ(occurrences(page, "<script"), 4);
  EXPECT_EQ(occurrences(page, "</script"), 4);
  EXPECT_EQ(occurrences(page, "<!--"), 0);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
}

TEST_P(EvalPages, HoldsWhatItIsGivenUnchanged) {
  const std::string page = render(bad_page());
  const JsonFile metrics = JsonFile::parse(script_content(page, "metrics"), "metrics");
  EXPECT_EQ(metrics.root().at("name").as_string(), kBad);
  const JsonFile extras = JsonFile::parse(script_content(page, "extras"), "extras");
  EXPECT_EQ(extras.root().at("notes").at(std::size_t{0}).as_string(), kBad);
  ASSERT_EQ(extras.root().at("settings").size(), 1U) << "unset options are left out";
  EXPECT_EQ(extras.root().at("settings").at(std::size_t{0}).at(std::size_t{0}).as_string(), kBad);
  EXPECT_THAT(script_content(page, "pictures"), HasSubstr("\"7\":\"data:image/jpeg;base64,/9j/"));
}

TEST_P(EvalPages, NeedsNothingFromOutsideAndIsSmall) {
  const std::string page = render({.metrics_json = "{}"});
  for (const char* part : {"https:", "src=\"", "<link", "url(", "@import", "fetch(", "innerHTML"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  EXPECT_LT(page.size(), 100'000U);
}

INSTANTIATE_TEST_SUITE_P(EvalPage, EvalPages, testing::Bool(), [](const auto& of_classes) {
  return std::string(of_classes.param ? "OfAClassifier" : "OfADetector");
});

}  // namespace
}  // namespace retina
