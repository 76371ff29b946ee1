#include "shared/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "shared/image/jpeg.h"
#include "shared/report/page_head.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// Every text of it is hostile.
Report full_report() {
  const std::string bad = "<script>alert(\"1\")</script>&'";
  Report report{.title = bad, .subtitle = bad};
  report.metrics = {{.label = bad, .value = bad, .detail = bad}};
  report.curves = {{.title = bad,
                    .x_label = bad,
                    .y_label = bad,
                    .series = {{.name = bad, .xs = {1, 2}, .ys = {3, 4}, .points = true}}}};
  report.findings = {{.text = bad, .options = bad}};
  report.histograms = {{.title = bad,
                        .x_label = bad,
                        .y_label = bad,
                        .bars = {{.label = bad, .detail = bad, .count = 1}},
                        .marks = {{.place = 0.5, .text = bad}}}};
  report.tables_title = bad;
  report.tables = {{.title = bad,
                    .columns = {bad, "AP"},
                    .rows = {{bad, "0.25"}},
                    .note = bad,
                    .bar_column = 1}};
  report.galleries = {{.title = bad, .note = bad, .images = {embed_image(Image(4, 4), bad)}}};
  report.settings = {{bad, bad}};
  report.notes = {bad};
  return report;
}

TEST(Report, HasBarsAsLongAsTheirCounts) {
  Report report;
  report.histograms = {{.title = "few", .bars = {{.count = 0}, {.count = 100}, {.count = 50}}},
                       {.title = "none", .bars = {{.count = 0}}}};
  const std::string page = render_report(report);
  EXPECT_THAT(page, HasSubstr("height=\"0.0\""));
  EXPECT_THAT(page, HasSubstr("height=\"180.0\""));
  EXPECT_THAT(page, HasSubstr("height=\"90.0\""));
  EXPECT_THAT(page, HasSubstr("no values"));
}

TEST(Report, GivesManyBarsTheWholeWidthAndCutsTheirNames) {
  Report report;
  report.histograms = {
      {.title = "few", .bars = {{.label = "a name that is long", .count = 1}}},
      {.title = "many", .bars = {{.label = "ä & fifteen more", .count = 1}}, .wide = true}};
  const std::string page = render_report(report);
  EXPECT_THAT(page, HasSubstr(">a name that is long</text>"));
  EXPECT_THAT(page, HasSubstr("rotate(-60)\">ä &amp; fifteen mo…</text>"));
  EXPECT_THAT(page, HasSubstr("<div class=\"card curve wide\"><h3>many"));
}

TEST(Report, TakesTheLengthOfATablesBarsFromTheirOwnNumbers) {
  Report report;
  report.tables = {
      {.columns = {"class", "boxes"}, .rows = {{"cat", "1,234"}}, .bar_column = 1, .bars = {0.25}}};
  EXPECT_THAT(render_report(report), HasSubstr("--w:25.0%\">1,234"));
}

TEST(Report, EscapesEveryText) {
  const std::string page = render_report(full_report());
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("alert(\"")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(Report, NeedsNothingFromOutside) {
  const std::string page = render_report(full_report());
  for (const char* part : {"http:", "https:", "src=\"/", "<link", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  EXPECT_THAT(page, HasSubstr("src=\"data:image/jpeg;base64,/9j/"));
}

TEST(Report, AllowsNoScriptAndNothingFromOutside) {
  EXPECT_THAT(
      render_report(full_report()),
      HasSubstr("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "base-uri 'none'; form-action 'none'; img-src data:; style-src "
                "'unsafe-inline'\">"));
}

TEST(PageHead, AllowsTheScriptOfItsHash) {
  // SHA-256 of nothing.
  const std::string head = page_head(
      {.title = "<",
       .script_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"});
  EXPECT_THAT(head,
              HasSubstr("; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='\">"));
  EXPECT_THAT(head, HasSubstr("<title>&lt;</title>"));
}

TEST(Report, EveryElementIsClosed) {
  const std::string page = render_report(full_report());
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)[^>]*?(/?)>");
  for (auto at = std::sregex_iterator(page.begin(), page.end(), tag); at != std::sregex_iterator();
       ++at) {
    const std::string name = (*at)[2];
    if (name == "meta" || name == "img" || (*at)[3].length() > 0) continue;
    if ((*at)[1].length() == 0) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    ASSERT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(Report, EmptyPartsLeaveNoHeadings) {
  const std::string page = render_report({.title = "t"});
  EXPECT_THAT(page, Not(HasSubstr("<h2>")));
  EXPECT_THAT(page, HasSubstr("<h1>t</h1>"));
}

TEST(Report, BarsShowValuesBetweenZeroAndOne) {
  const std::string page =
      render_report({.tables = {{.columns = {"a", "b"},
                                 .rows = {{"x", "0.25"}, {"y", "n/a"}, {"z", "1.5"}},
                                 .bar_column = 1}}});
  EXPECT_THAT(page, HasSubstr("<td class=\"bar\" style=\"--w:25.0%\">0.25</td>"));
  EXPECT_THAT(page, HasSubstr("<td>n/a</td>"));
  EXPECT_THAT(page, HasSubstr("<td>1.5</td>"));
}

TEST(Report, ImagesAreShrunkToTheirLimit) {
  const EmbeddedImage image = embed_image(Image(1000, 400), "c", 250);
  int width = 0, height = 0;
  ASSERT_TRUE(JpegDecoder().read_size(image.jpeg, width, height).ok);
  EXPECT_EQ(width, 250);
  EXPECT_EQ(height, 100);
}

TEST(Report, SmoothingStartsAtTheFirstValueAndIgnoresGaps) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> out = smoothed({4, 4, none, 4, 8}, 2);
  EXPECT_EQ(out[0], 4);
  EXPECT_EQ(out[2], 4);
  EXPECT_GT(out[4], 4);
  EXPECT_LT(out[4], 8);
  EXPECT_EQ(smoothed({1, 5, 2}, 1), (std::vector<double>{1, 5, 2}));
}

}  // namespace
}  // namespace retina
