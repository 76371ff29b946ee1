#include "shared/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Progress, EndsWithAPlainLineWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  {
    Progress progress("packing", 10, "images");
    for (int i = 1; i <= 10; ++i) progress.update(i, "2 bad");
    progress.finish();
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(text, HasSubstr("packing"));
  EXPECT_THAT(text, HasSubstr("10"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace retina
