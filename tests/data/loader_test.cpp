#include "shared/data/loader.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/program.h"

namespace retina {
namespace {

BatchRequest request_of_records(std::vector<std::size_t> records) {
  BatchRequest request{.frame = {.min_side_px = 32, .max_side_px = 64}, .padded = {64, 64}};
  for (const std::size_t record : records) request.slots.push_back({.record = record});
  return request;
}

// Requests `count` batches of three images, one after the other.
BatchLoader::RequestSource three_at_a_time(std::size_t count) {
  return [count, next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == count) return std::nullopt;
    const std::size_t first = 3 * next++;
    BatchRequest request = request_of_records({first, first + 1, first + 2});
    request.part.step = static_cast<std::int64_t>(next) - 1;
    return request;
  };
}

BatchLoader::RequestSource one_by_one(std::vector<BatchRequest> requests) {
  return [requests = std::move(requests),
          next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == requests.size()) return std::nullopt;
    return requests[next++];
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

TEST(BatchLoader, LetsItsConsumerGiveUpWhileABatchIsNotThere) {
  const SyntheticSource source(60, 5, 7);
  std::promise<void> arrives;
  // As a shard that is under way; it is there for all later requests.
  const std::shared_future<void> arrived = arrives.get_future().share();
  BatchLoader loader(source, {.threads = 1}, [&]() -> std::optional<BatchRequest> {
    arrived.wait();
    return request_of_records({1});
  });
  int asked = 0;
  EXPECT_FALSE(loader.next([&] { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
  arrives.set_value();
  const auto batch = loader.next([] { return false; });
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->samples.size(), 1U);
}

TEST(BatchLoader, GivesABatchWithoutImagesForARequestWithoutSlots) {
  const SyntheticSource source(60, 5, 7);
  for (const int threads : {1, 3}) {
    std::vector<BatchRequest> requests = {request_of_records({}), request_of_records({1}),
                                          request_of_records({}), request_of_records({2, 3}),
                                          request_of_records({})};
    BatchLoader loader(source, {.threads = threads}, one_by_one(requests));
    for (const BatchRequest& request : requests) {
      const auto batch = loader.next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(batch->samples.size(), request.slots.size());
      EXPECT_EQ(batch->padded.width, 64);
    }
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(BatchLoader, StopsInTheMiddleWithoutWaitingForTheRest) {
  const SyntheticSource source(60, 5, 7);
  BatchLoader loader(source, {.threads = 3}, three_at_a_time(20));
  EXPECT_TRUE(loader.next().has_value());
}

constexpr std::size_t kStoredBytes = std::size_t{3} * 640 * 480;  // of a synthetic image

// Memory full of NaN, counted.
struct Memory {
  std::atomic<int> alive = 0, most_alive = 0, made = 0;

  BatchAllocator allocator() {
    return [this](std::size_t bytes) -> std::shared_ptr<void> {
      ++made;
      const int now = ++alive;
      most_alive = std::max(most_alive.load(), now);
      const std::size_t count = bytes / sizeof(float) + 1;
      std::shared_ptr<float[]> floats(new float[count], [this](const float* memory) {
        --alive;
        delete[] memory;
      });
      std::fill_n(floats.get(), count, std::numeric_limits<float>::quiet_NaN());
      return floats;
    };
  }
};

TEST(BatchLoader, KeepsNoMoreBatchesInMemoryThanAsked) {
  const SyntheticSource source(60, 5, 7);
  Memory memory;
  {
    LoaderOptions options{.threads = 4, .prefetch_batches = 2, .allocate = memory.allocator()};
    BatchLoader loader(source, options, three_at_a_time(20));
    while (loader.next()) {
    }
    EXPECT_LE(memory.most_alive, 3) << "two waiting and the one being consumed";
    EXPECT_EQ(memory.made, memory.alive) << "memory was not used again";
  }
  EXPECT_EQ(memory.alive, 0);
}

TEST(BatchLoader, KeepsOneBatchAheadWhereItsBytesAreTheLimit) {
  const SyntheticSource source(60, 5, 7);
  Memory memory;
  LoaderOptions options{.threads = 4, .prefetch_batches = 4, .allocate = memory.allocator()};
  options.prefetch_bytes = 1;
  BatchLoader loader(source, options, three_at_a_time(20));
  int count = 0;
  for (; loader.next(); ++count) {
  }
  EXPECT_EQ(count, 20);
  EXPECT_LE(memory.most_alive, 2) << "one waiting and the one being consumed";
}

// Batches of one to four images, each padded to another size.
std::vector<BatchRequest> requests_of_many_shapes() {
  std::vector<BatchRequest> requests;
  for (std::size_t first = 0; first < 40; first += requests.size() % 4 + 1) {
    std::vector<std::size_t> records(requests.size() % 4 + 1);
    std::iota(records.begin(), records.end(), first);
    BatchRequest request = request_of_records(records);
    request.padded.width = 64 + 32 * static_cast<int>(requests.size() * 5 % 3);
    request.padded.height = 64 + 32 * static_cast<int>(requests.size() * 7 % 4);
    requests.push_back(request);
  }
  return requests;
}

TEST(BatchLoader, GivesThePixelsOfFreshMemoryInMemoryThatItUsesAgain) {
  const SyntheticSource source(60, 5, 7);
  const std::vector<BatchRequest> requests = requests_of_many_shapes();
  Memory memory;
  LoaderOptions options{.threads = 3, .prefetch_batches = 2, .allocate = memory.allocator()};
  BatchLoader loader(source, options, one_by_one(requests));
  JpegDecoder decoder;
  for (const BatchRequest& request : requests) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch.has_value());
    const auto image_floats = static_cast<std::size_t>(3) *
                              static_cast<std::size_t>(request.padded.width) *
                              static_cast<std::size_t>(request.padded.height);
    for (std::size_t place = 0; place < request.slots.size(); ++place) {
      std::vector<float> fresh(image_floats);
      source.load(request, place, decoder, fresh.data());
      const float* const pixels = batch->images.get() + place * image_floats;
      ASSERT_TRUE(std::equal(fresh.begin(), fresh.end(), pixels)) << place;
    }
  }
  EXPECT_LT(memory.made, static_cast<int>(requests.size()));
}

TEST(BatchLoader, ABatchOutlivesItsLoaderAndKeepsItsPixels) {
  const SyntheticSource source(60, 5, 7);
  Memory memory;
  {
    std::optional<Batch> first;
    std::vector<float> pixels;
    {
      LoaderOptions options{.threads = 2, .prefetch_batches = 1, .allocate = memory.allocator()};
      BatchLoader loader(source, options, three_at_a_time(20));
      first = loader.next();
      pixels.assign(first->images.get(), first->images.get() + 3 * 3 * 64 * 64);
      for (int i = 0; i < 5; ++i) loader.next();
    }
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), first->images.get()));
    EXPECT_EQ(memory.alive, 1);
  }
  EXPECT_EQ(memory.alive, 0);
}

// Synthetic images, before each of which something happens: it throws, takes time, or gives another
// sample.
class ChangedSource : public SyntheticSource {
 public:
  using Change = std::function<std::optional<Sample>(const Slot&)>;
  explicit ChangedSource(Change change) : SyntheticSource(60, 5, 7), change_(std::move(change)) {}
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override {
    if (std::optional<Sample> sample = change_(request.slots[place])) return *sample;
    return SyntheticSource::load(request, place, decoder, pixels);
  }

 private:
  Change change_;
};

TEST(BatchLoader, GivesZerosForAImageWithAProblem) {
  const ChangedSource source([](const Slot& slot) {  // no pixels, though it has a size
    return Sample{
        .slot = slot, .width_px = 64, .height_px = 48, .problem = FileProblem{.reason = "damaged"}};
  });
  Memory memory;
  BatchLoader loader(source, {.allocate = memory.allocator()}, three_at_a_time(1));
  const auto batch = loader.next();
  const float* const pixels = batch->images.get();
  EXPECT_TRUE(std::all_of(pixels, pixels + 3 * 3 * 64 * 64, [](float v) { return v == 0; }));

  BatchLoader stored(source, {.form = PixelForm::kStored, .allocate = memory.allocator()},
                     three_at_a_time(1));
  const auto bytes = stored.next();
  EXPECT_TRUE(std::all_of(bytes->stored.get(), bytes->stored.get() + 3 * kStoredBytes,
                          [](std::uint8_t v) { return v == 0; }));
}

TEST(BatchLoader, GivesTheImagesAsTheyAreWithTheSameSamples) {
  const SyntheticSource source(60, 5, 7);
  Memory memory;
  for (const int threads : {1, 3}) {
    BatchLoader normalised(source, {.threads = threads}, three_at_a_time(20));
    BatchLoader stored(source,
                       {.threads = threads,
                        .prefetch_batches = 2,
                        .form = PixelForm::kStored,
                        .allocate = memory.allocator()},
                       three_at_a_time(20));
    JpegDecoder decoder;
    for (std::size_t first = 0; first < 60; first += 3) {
      const auto expected = normalised.next(), batch = stored.next();
      ASSERT_TRUE(expected && batch);
      EXPECT_EQ(batch->images, nullptr);
      EXPECT_EQ(batch->offsets, (std::vector<std::size_t>{0, kStoredBytes, 2 * kStoredBytes}));
      EXPECT_EQ(batch->part.step, expected->part.step);
      for (std::size_t place = 0; place < 3; ++place) {
        EXPECT_EQ(batch->samples[place].image_id, expected->samples[place].image_id);
        EXPECT_EQ(batch->samples[place].boxes, expected->samples[place].boxes);
        std::vector<std::uint8_t> fresh(kStoredBytes);
        source.load(request_of_records({first, first + 1, first + 2}), place, decoder,
                    fresh.data());
        EXPECT_TRUE(
            std::equal(fresh.begin(), fresh.end(), batch->stored.get() + batch->offsets[place]));
      }
    }
    EXPECT_FALSE(stored.next().has_value());
  }
  EXPECT_LT(memory.made, 10);
}

TEST(BatchLoader, AddsAThreadEachTimeItsConsumerWaitsUpToTheMost) {
  const ChangedSource source([](const Slot&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::optional<Sample>();
  });
  BatchLoader adding(source, {.threads = 1, .most_threads = 3}, three_at_a_time(20));
  BatchLoader fixed(source, {.threads = 2}, three_at_a_time(20));
  EXPECT_EQ(adding.threads(), 1);
  for (int i = 0; i < 10; ++i) {
    adding.next();
    fixed.next();
  }
  EXPECT_GT(adding.threads(), 1);
  EXPECT_LE(adding.threads(), 3);
  EXPECT_EQ(fixed.threads(), 2);
}

TEST(ChooseDecodeThreads, TakesWhatIsAskedForAndElseItsShareOfTheCores) {
  const auto chosen = [](int wanted, int cores, bool on_gpu) {
    const DecodeThreads threads = choose_decode_threads(wanted, cores, on_gpu);
    return std::pair(threads.first, threads.most);
  };
  EXPECT_EQ(chosen(3, 16, true), std::pair(3, 3));
  EXPECT_EQ(chosen(0, 16, true), std::pair(1, 15));
  EXPECT_EQ(chosen(0, 16, false), std::pair(1, 16));
  EXPECT_EQ(chosen(0, 1, true), std::pair(1, 1));
}

TEST(BatchLoader, RethrowsWhatAThreadThrewWithTheBatchItBelongsTo) {
  const ChangedSource source([](const Slot& slot) {
    if (slot.record == 7) throw Error(ErrorKind::kData, "image 7: broken");
    return std::optional<Sample>();
  });
  BatchLoader loader(source, {.threads = 3}, three_at_a_time(20));
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_THROW(loader.next(), Error);  // images 6, 7, 8
}

TEST(BatchLoader, RethrowsWhatTheRequestSourceThrew) {
  const SyntheticSource source(60, 5, 7);
  BatchLoader loader(source, {.threads = 2}, [n = 0]() mutable -> std::optional<BatchRequest> {
    if (n++ == 1) throw std::runtime_error("no plan");
    return request_of_records({1});
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
