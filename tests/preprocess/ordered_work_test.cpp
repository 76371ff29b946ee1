#include "preprocess/ordered_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace retina {
namespace {

TEST(OrderedWork, GivesResultsInOrderWhateverTheThreads) {
  for (const int threads : {1, 2, 7}) {
    OrderedWork<std::size_t> work({.first = 3, .count = 200, .thread_count = threads},
                                  [](int, std::size_t number) {
                                    if (number % 3 == 0) std::this_thread::yield();
                                    return number * number;
                                  });
    for (std::size_t i = 3; i < 200; ++i) EXPECT_EQ(work.take(), i * i);
  }
}

TEST(OrderedWork, StaysWithinItsWindow) {
  std::atomic<std::size_t> begun = 0;
  OrderedWork<int> work({.count = 1000, .thread_count = 2}, [&](int, std::size_t) {
    ++begun;
    return 0;
  });
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_LE(begun, static_cast<std::size_t>(i + 8));
    work.take();
  }
}

TEST(OrderedWork, ThrowsAnErrorAtItsPlaceAndStopsEarly) {
  OrderedWork<int> work({.count = 1000, .thread_count = 3}, [](int, std::size_t number) {
    if (number == 5) throw std::runtime_error("five");
    return static_cast<int>(number);
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(work.take(), i);
  EXPECT_THROW(work.take(), std::runtime_error);
  EXPECT_EQ(work.take(), 6);
}

}  // namespace
}  // namespace retina
