#include "shared/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

class LogTest : public testing::Test {
 protected:
  LogTest() { set_log_name("tool"); }
  ~LogTest() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(LogTest, DropsLinesBelowTheLevel) {
  testing::internal::CaptureStderr();
  set_log_level(LogLevel::kWarning);
  log_info("quiet");
  log_warning("loud ", 1);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("quiet")));
  EXPECT_THAT(text, HasSubstr("tool: warning: loud 1\n"));
}

}  // namespace
}  // namespace retina
