#include "shared/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr const char* kBad = "<script>alert(\"1\")</script>&'";
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Every text of it is hostile.
Report full_report() {
  const std::string bad = kBad;
  Report report{.title = bad, .subtitle = bad};
  report.metrics = {{.label = bad, .value = bad, .detail = bad}};
  report.curves = {{.title = bad,
                    .x_label = bad,
                    .y_label = bad,
                    .series = {{.name = bad, .xs = {1, 2}, .ys = {3, kNone}, .points = true}}}};
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
                    .bar_column = 1,
                    .bars = {0.25}}};
  report.galleries = {{.title = bad, .note = bad, .images = {embed_image(Image(4, 4), bad)}}};
  report.settings = {{bad, bad}};
  report.notes = {bad};
  return report;
}

// The page's own script shows it: page_kit_test.py.
TEST(Report, GivesEveryPartToThePage) {
  const std::string page = render_report(full_report());
  const std::string tag = "id=\"page\">";
  const std::size_t begin = page.find(tag) + tag.size();
  const JsonFile file =
      JsonFile::parse(page.substr(begin, page.find("</script>", begin) - begin), "page");
  const JsonView data = file.root().at("data");
  constexpr std::size_t kFirst = 0;
  const auto first = [&](const char* part) { return data.at(part).at(kFirst); };
  EXPECT_EQ(first("metrics").at("detail").as_string(), kBad);
  EXPECT_EQ(first("findings").at("options").as_string(), kBad);
  for (const char* part : {"curves", "histograms"}) {
    EXPECT_EQ(first(part).at("y_label").as_string(), kBad);
  }
  const JsonView line = first("curves").at("series").at(kFirst);
  EXPECT_EQ(line.at("name").as_string(), kBad);
  EXPECT_TRUE(line.at("points").as_bool());
  EXPECT_FALSE(line.at("faint").as_bool());
  EXPECT_EQ(line.at("xs").at(std::size_t{1}).as_double(), 2);
  EXPECT_EQ(line.at("ys").at(kFirst).as_double(), 3);
  EXPECT_TRUE(line.at("ys").at(std::size_t{1}).raw().IsNull()) << "not finite";
  const JsonView bar = first("histograms").at("bars").at(kFirst);
  EXPECT_EQ(bar.at("label").as_string(), kBad);
  EXPECT_EQ(bar.at("detail").as_string(), kBad);
  EXPECT_EQ(bar.at("count").as_double(), 1);
  EXPECT_EQ(first("histograms").at("marks").at(kFirst).at("place").as_double(), 0.5);
  EXPECT_EQ(data.at("tables_title").as_string(), kBad);
  const JsonView table = first("tables");
  EXPECT_EQ(table.at("columns").at(kFirst).as_string(), kBad);
  EXPECT_EQ(table.at("rows").at(kFirst).at(std::size_t{1}).as_string(), "0.25");
  EXPECT_EQ(table.at("note").as_string(), kBad);
  EXPECT_EQ(table.at("bar_column").as_int(), 1);
  EXPECT_EQ(table.at("bars").at(kFirst).as_double(), 0.25);
  const JsonView image = first("galleries").at("images").at(kFirst);
  EXPECT_EQ(image.at("caption").as_string(), kBad);
  EXPECT_THAT(page,
              HasSubstr(cat("\"", image.at("image").as_int(), "\":\"data:image/jpeg;base64,/9j/")));
}

TEST(Report, HasItsMetricsAndFindingsWithoutAScript) {
  const std::string page = render_report(
      {.title = "t",
       .metrics = {{.label = "AP", .value = "0.5", .detail = "epoch 3"},
                   {.label = "images/s", .value = "7"}},
       .findings = {{.text = "No anchor covers them:", .options = "--anchor-sizes 16,32"}}});
  EXPECT_THAT(page, HasSubstr("<pre>AP: 0.5 (epoch 3)\nimages/s: 7\nNo anchor covers them: "
                              "--anchor-sizes 16,32\n</pre>"));
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
