#include "shared/data/loader.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/program.h"

namespace retina {
namespace {

BatchRequest request_of(std::vector<std::size_t> records) {
  BatchRequest request{
      .min_side_px = 32, .max_side_px = 64, .padded_width_px = 64, .padded_height_px = 64};
  for (const std::size_t record : records) request.slots.push_back({.record = record});
  return request;
}

// Requests `count` batches of three images, one after the other.
BatchLoader::RequestSource three_at_a_time(std::size_t count) {
  return [count, next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == count) return std::nullopt;
    const std::size_t first = 3 * next++;
    BatchRequest request = request_of({first, first + 1, first + 2});
    request.part.step = static_cast<std::int64_t>(next) - 1;
    return request;
  };
}

std::vector<float> load_all(int threads, int prefetch) {
  const SyntheticSource source(60, 5, 7);
  BatchLoader loader(source, {.threads = threads, .prefetch_batches = prefetch},
                     three_at_a_time(20));
  std::vector<float> content;
  std::int64_t count = 0;
  while (const auto batch = loader.next()) {
    EXPECT_EQ(batch->part.step, count++);
    EXPECT_EQ(batch->samples.size(), 3U);
    content.insert(content.end(), batch->images.get(), batch->images.get() + 3 * 3 * 64 * 64);
    for (const Sample& sample : batch->samples) {
      content.push_back(static_cast<float>(sample.image_id));
      for (const auto& box : sample.boxes) content.insert(content.end(), box.begin(), box.end());
    }
  }
  EXPECT_EQ(count, 20);
  return content;
}

TEST(BatchLoader, GivesTheSameBatchesForAnyNumberOfThreads) {
  const auto expected = load_all(1, 1);
  EXPECT_EQ(load_all(2, 4), expected);
  EXPECT_EQ(load_all(5, 3), expected);
}

TEST(BatchLoader, GivesABatchWithoutImagesForARequestWithoutSlots) {
  const SyntheticSource source(60, 5, 7);
  for (const int threads : {1, 3}) {
    std::vector<BatchRequest> requests = {request_of({}), request_of({1}), request_of({}),
                                          request_of({2, 3}), request_of({})};
    BatchLoader loader(source, {.threads = threads},
                       [requests, next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
                         if (next == requests.size()) return std::nullopt;
                         return requests[next++];
                       });
    for (const BatchRequest& request : requests) {
      const auto batch = loader.next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(batch->samples.size(), request.slots.size());
      EXPECT_EQ(batch->padded_width_px, 64);
    }
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(BatchLoader, StopsInTheMiddleWithoutWaitingForTheRest) {
  const SyntheticSource source(60, 5, 7);
  BatchLoader loader(source, {.threads = 3}, three_at_a_time(20));
  EXPECT_TRUE(loader.next().has_value());
}

TEST(BatchLoader, KeepsNoMoreBatchesInMemoryThanAsked) {
  const SyntheticSource source(60, 5, 7);
  std::atomic<int> alive = 0, most = 0;
  LoaderOptions options{.threads = 4, .prefetch_batches = 2};
  options.allocate = [&](std::size_t count) {
    const int now = ++alive;
    most = std::max(most.load(), now);
    return std::shared_ptr<float[]>(new float[count], [&](const float* memory) {
      --alive;
      delete[] memory;
    });
  };
  BatchLoader loader(source, options, three_at_a_time(20));
  while (loader.next()) {
  }
  EXPECT_LE(most, 3) << "two waiting and the one being consumed";
  EXPECT_EQ(alive, 0);
}

// A source whose image 7 is broken.
class BrokenSource : public SyntheticSource {
 public:
  BrokenSource() : SyntheticSource(60, 5, 7) {}
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              float* pixels) const override {
    if (request.slots[place].record == 7) throw Error(ErrorKind::kData, "image 7: broken");
    return SyntheticSource::load(request, place, decoder, pixels);
  }
};

TEST(BatchLoader, RethrowsWhatAThreadThrewWithTheBatchItBelongsTo) {
  const BrokenSource source;
  BatchLoader loader(source, {.threads = 3}, three_at_a_time(20));
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_THROW(loader.next(), Error);  // images 6, 7, 8
}

TEST(BatchLoader, RethrowsWhatTheRequestSourceThrew) {
  const SyntheticSource source(60, 5, 7);
  BatchLoader loader(source, {.threads = 2}, [n = 0]() mutable -> std::optional<BatchRequest> {
    if (n++ == 1) throw std::runtime_error("no plan");
    return request_of({1});
  });
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_THROW(loader.next(), std::runtime_error);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map without limit

// Leaves this process room for the stacks of a few more threads.
void limit_threads_to_a_few() {
  constexpr std::size_t kStackBytes = std::size_t{64} << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  ::pthread_setattr_default_np(&attributes);
  std::size_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  const rlim_t bytes = mapped_pages * static_cast<std::size_t>(::getpagesize()) + 4 * kStackBytes;
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(BatchLoaderDeathTest, SaysThatAThreadCannotStart) {
  const auto start = [] {
    const SyntheticSource source(60, 5, 7);
    const BatchLoader loader(source, {.threads = 64}, three_at_a_time(20));
    return 0;
  };
  EXPECT_EXIT(
      {
        limit_threads_to_a_few();
        std::_Exit(run_program("tool", start));
      },
      testing::ExitedWithCode(69),
      "^tool: error: cannot start 64 decode threads .*ask for fewer with --threads\n$");
}

#endif

}  // namespace
}  // namespace retina
