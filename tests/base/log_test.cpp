#include "shared/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "shared/base/progress.h"

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

TEST_F(LogTest, ProgressEndsWithAPlainLineWithoutATerminal) {
  testing::internal::CaptureStderr();
  Progress progress("packing", 10, "images");
  for (int i = 1; i <= 10; ++i) progress.update(i, "2 bad");
  progress.finish();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::StartsWith("tool: packing 10/10 images"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST_F(LogTest, ControlCharactersOfForeignTextDoNotReachTheTerminal) {
  testing::internal::CaptureStderr();
  log_warning("class \"\x1b[2Jcat\n\" \xc3\xa9");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tool: warning: class \"\\x1b[2Jcat\\n\" \xc3\xa9\n");
}

TEST(LogReader, IsWaitedForUntilItHasReadAll) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const auto unread = [&] {
    int count = -1;
    ::ioctl(ends[1], FIONREAD, &count);
    return count;
  };
  ASSERT_EQ(::write(ends[1], "verdict", 7), 7);
  wait_until_read(ends[1], 0.01);  // nobody reads
  EXPECT_EQ(unread(), 7);
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::array<char, 7> text{};
    EXPECT_EQ(::read(ends[0], text.data(), text.size()), 7);
  });
  wait_until_read(ends[1], 60);
  EXPECT_EQ(unread(), 0);
  reader.join();
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace retina
