#include "shared/report/text.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(ReportText, EscapesWhatHtmlGivesMeaning) {
  EXPECT_EQ(escape_html("<a href=\"x\">R&D's</a>"),
            "&lt;a href=&quot;x&quot;&gt;R&amp;D&#39;s&lt;/a&gt;");
  EXPECT_EQ(escape_html(std::string_view("a\0b\x1B[1mc\nd", 10)), "ab[1mc\nd");
  EXPECT_EQ(escape_html("h\xC3\xA9ron"), "h\xC3\xA9ron");
}

TEST(ReportText, Base64MeetsTheRfcsVectors) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xFF\xFE\xFD"), "//79");
}

}  // namespace
}  // namespace retina
