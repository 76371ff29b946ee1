#include "shared/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace retina {
namespace {

TEST(BoundedQueue, GivesItemsInTheOrderTheyCame) {
  BoundedQueue<int> queue(3);
  for (const int i : {1, 2, 3}) EXPECT_TRUE(queue.push(i));
  for (const int i : {1, 2, 3}) EXPECT_EQ(queue.pop(), i);
}

TEST(BoundedQueue, MakesTheProducerWaitWhenFull) {
  BoundedQueue<int> queue(1);
  queue.push(1);
  std::atomic<bool> pushed = false;
  std::thread producer([&] {
    queue.push(2);
    pushed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.pop(), 1);
  producer.join();
  EXPECT_EQ(queue.pop(), 2);
}

TEST(BoundedQueue, CloseReleasesAWaitingConsumerAndProducer) {
  BoundedQueue<int> empty(1), full(1);
  full.push(1);
  bool accepted = true;
  std::optional<int> item = 5;
  std::thread consumer([&] { item = empty.pop(); });
  std::thread producer([&] { accepted = full.push(2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  empty.close();
  full.close();
  consumer.join();
  producer.join();
  EXPECT_EQ(item, std::nullopt);
  EXPECT_FALSE(accepted);
}

TEST(BoundedQueue, KeepsWhatWasInsideAfterClose) {
  BoundedQueue<int> queue(2);
  queue.push(1);
  queue.close();
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, LosesNothingBetweenManyThreads) {
  constexpr int kThreads = 4, kItems = 2000;
  BoundedQueue<int> queue(8);
  std::atomic<long> sum = 0;
  std::vector<std::thread> producers, consumers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&] {
      for (int i = 1; i <= kItems; ++i) queue.push(i);
    });
    consumers.emplace_back([&] {
      while (const auto item = queue.pop()) sum += *item;
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  EXPECT_EQ(sum, static_cast<long>(kThreads) * kItems * (kItems + 1) / 2);
}

}  // namespace
}  // namespace retina
