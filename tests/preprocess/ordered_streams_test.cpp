#include "preprocess/ordered_streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace retina {
namespace {

using Put = OrderedStreams<std::size_t>::Put;

TEST(OrderedStreams, GiveAllResultsOfANumberBeforeThoseOfTheNext) {
  for (const int threads : {1, 2, 7}) {
    OrderedStreams<std::size_t> streams(
        {.first = 2, .count = 60, .thread_count = threads, .limit_bytes = 5},
        [](int, std::size_t number, const Put& put) {
          for (std::size_t i = 0; i < number % 9; ++i) put(100 * number + i, 1);
        });
    for (std::size_t number = 2; number < 60; ++number) {
      for (std::size_t i = 0; i < number % 9; ++i) EXPECT_EQ(streams.take(), 100 * number + i);
      EXPECT_EQ(streams.take(), std::nullopt) << number;
    }
  }
}

// However far one number could run ahead of the one that is taken.
TEST(OrderedStreams, HoldNoMoreThanTheLimitAndWhatTheThreadsAreAbout) {
  constexpr std::size_t kEach = 400, kLimit = 20;
  std::atomic<std::size_t> made = 0;
  OrderedStreams<std::size_t> streams({.count = 4, .thread_count = 3, .limit_bytes = kLimit},
                                      [&](int, std::size_t, const Put& put) {
                                        for (std::size_t i = 0; i < kEach; ++i, ++made) put(i, 1);
                                      });
  std::size_t taken = 0, most = 0;
  for (int number = 0; number < 4; ++number) {
    while (streams.take()) {
      ++taken;
      std::this_thread::yield();
      most = std::max(most, made - std::min<std::size_t>(taken, made));
    }
  }
  EXPECT_EQ(taken, 4 * kEach);
  EXPECT_LE(most, kLimit + 2 + 3);
}

TEST(OrderedStreams, ThrowAnErrorBehindTheResultsBeforeIt) {
  OrderedStreams<std::size_t> streams({.count = 9, .thread_count = 3},
                                      [](int, std::size_t number, const Put& put) {
                                        put(number, 1);
                                        if (number == 1) throw std::runtime_error("one");
                                      });
  EXPECT_EQ(streams.take(), 0U);
  EXPECT_EQ(streams.take(), std::nullopt);
  EXPECT_EQ(streams.take(), 1U);
  EXPECT_THROW(streams.take(), std::runtime_error);
  EXPECT_EQ(streams.take(), 2U);
}

TEST(OrderedStreams, EndWhileTheirThreadsWaitForSpace) {
  OrderedStreams<std::size_t> streams({.count = 9, .thread_count = 3, .limit_bytes = 1},
                                      [](int, std::size_t, const Put& put) {
                                        for (std::size_t i = 0; i < 1000; ++i) put(i, 1);
                                      });
  EXPECT_EQ(streams.take(), 0U);
}

}  // namespace
}  // namespace retina
