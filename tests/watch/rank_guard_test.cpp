#include "shared/watch/rank_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace retina {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a guard of `rank` has done by the time it ends the process.
std::vector<std::string> expired(int rank, bool ends_launcher) {
  std::vector<std::string> calls;
  std::promise<int> ended;
  const WatchHandler handler{
      .report = [&](const std::string& message, const std::string&) { calls.push_back(message); },
      .warn = {},
      .end_launcher = [&] { calls.push_back("launcher"); },
      .end = [&](int code) { ended.set_value(code); }};
  const RankGuard guard({.rank = rank,
                         .limit_s = 0.01,
                         .second_s = 0,
                         .what = "MPI has not started",
                         .exit_code = 7,
                         .ends_launcher = ends_launcher},
                        handler);
  EXPECT_EQ(ended.get_future().get(), 7);
  return calls;
}

TEST(RankGuard, EndsTheProcessAfterTheLimitAndTwoRanksAtMostTell) {
  EXPECT_THAT(expired(0, false), ElementsAre("MPI has not started within 0 s"));
  EXPECT_THAT(expired(1, true), ElementsAre("MPI has not started within 0 s", "launcher"));
  EXPECT_THAT(expired(2, false), IsEmpty());
}

TEST(RankGuard, DoesNothingWhenItEndsBefore) {
  const auto fail = [](const auto&...) { FAIL(); };
  const WatchHandler handler{.report = fail, .warn = {}, .end_launcher = fail, .end = fail};
  const RankGuard guard({.limit_s = 3600}, handler);
}

}  // namespace
}  // namespace retina
