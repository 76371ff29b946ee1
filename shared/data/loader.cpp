#include "shared/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/measure.h"
#include "shared/image/jpeg.h"

namespace retina {

namespace {

// The consumer counts as waiting if the next batch comes later than this share of the time since it
// took the last one.
constexpr double kWaitShare = 0.02;
// Interval at which a consumer that may give up is asked.
constexpr std::chrono::milliseconds kLook(100);

std::size_t plane_floats(const BatchRequest& request) {
  return static_cast<std::size_t>(request.padded.width) *
         static_cast<std::size_t>(request.padded.height);
}

// Returns the offsets of a batch's images in its memory, and the end of the last one.
std::vector<std::size_t> byte_offsets(const BatchRequest& request, PixelForm form,
                                      const ImageIndex& index) {
  std::vector<std::size_t> offsets = {0};
  for (const Slot& slot : request.slots) {
    offsets.push_back(offsets.back() + (form == PixelForm::kStored
                                            ? stored_bytes(index[slot.record])
                                            : 3 * plane_floats(request) * sizeof(float)));
  }
  return offsets;
}

// Zeroes the part of the batch's plane outside the image of `sample`: the strips on its right and
// below it, or everything if there are no pixels.
void clear_padding(const BatchRequest& request, const Sample& sample, float* pixels) {
  const auto padded_width = static_cast<std::size_t>(request.padded.width);
  const auto width = static_cast<std::size_t>(sample.problem ? 0 : sample.width_px);
  const auto height = static_cast<std::size_t>(sample.problem ? 0 : sample.height_px);
  for (int c = 0; c < 3; ++c, pixels += plane_floats(request)) {
    for (std::size_t y = 0; width < padded_width && y < height; ++y) {
      std::fill_n(pixels + y * padded_width + width, padded_width - width, 0.0F);
    }
    std::fill(pixels + height * padded_width, pixels + plane_floats(request), 0.0F);
  }
}

}  // namespace

// Reuses memory of released batches for the next ones: in a steady state nothing is allocated. Made
// with std::make_shared; its blocks may outlive it. Thread-safe.
class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  explicit BatchMemory(BatchAllocator allocate) : allocate_(std::move(allocate)) {}

  // Returns at least `bytes`, not initialised; they come back when their last owner drops them, or
  // are freed if this object is gone. Allocates if no block of that size has come back; a smaller
  // one is freed for it.
  std::shared_ptr<void> take(std::size_t bytes) {
    Block block = take_free(bytes);
    if (block.bytes < bytes) {
      block = {};  // the smaller one is freed before a larger one is allocated
      block = {.memory = allocate_(bytes), .bytes = bytes};
    }
    void* const start = block.memory.get();
    return {start, [owner = weak_from_this(), block = std::move(block)](void*) mutable {
              if (const auto alive = owner.lock()) alive->give_back(std::move(block));
            }};
  }

 private:
  struct Block {
    std::shared_ptr<void> memory = {};
    std::size_t bytes = 0;
  };

  // Returns a free block of `bytes` or more if there is one, else any.
  Block take_free(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {};
    const auto fits = std::find_if(free_.begin(), free_.end(),
                                   [bytes](const Block& one) { return one.bytes >= bytes; });
    std::iter_swap(fits == free_.end() ? free_.begin() : fits, free_.end() - 1);
    Block block = std::move(free_.back());
    free_.pop_back();
    return block;
  }

  void give_back(Block block) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      free_.push_back(std::move(block));
    } catch (const std::bad_alloc&) {
      // The block is freed instead.
    }
  }

  const BatchAllocator allocate_;
  std::mutex mutex_;
  std::vector<Block> free_;
};

std::shared_ptr<void> allocate_plain(std::size_t bytes) {
  return std::make_shared_for_overwrite<std::max_align_t[]>((bytes + sizeof(std::max_align_t) - 1) /
                                                            sizeof(std::max_align_t));
}

DecodeThreads choose_decode_threads(int wanted, int cores, bool on_gpu) {
  if (wanted > 0) return {.first = wanted, .most = wanted};
  return {.first = 1, .most = std::max(1, on_gpu ? cores - 1 : cores)};
}

class BatchLoader::Pool {
 public:
  Pool(const SampleSource& source, LoaderOptions options, RequestSource next_request)
      : source_(source),
        options_(std::move(options)),
        next_request_(std::move(next_request)),
        memory_(std::make_shared<BatchMemory>(options_.allocate)) {
    const int count = std::max(1, options_.threads);
    try {
      for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      stop();
      throw Error(ErrorKind::kUnavailable,
                  cat("cannot start ", count, " decode threads (", error.what(), ")"),
                  "ask for fewer with --threads");
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }

  std::optional<Batch> next(const std::function<bool()>& gives_up) {
    const double since_last_ms = clock_.lap_ms();
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, kLook, [&] {
      return pending_.empty() ? ended_
                              : pending_.front()->finished == slot_count(*pending_.front());
    })) {
      if (gives_up && gives_up()) return std::nullopt;
    }
    if (pending_.empty()) {
      if (source_error_) std::rethrow_exception(source_error_);
      return std::nullopt;
    }
    const std::shared_ptr<Pending> front = std::move(pending_.front());
    pending_.pop_front();
    pending_bytes_ -= front->bytes();
    const bool more_to_come = !ended_;
    lock.unlock();
    work_.notify_all();
    if (more_to_come && clock_.lap_ms() > kWaitShare * since_last_ms) add_thread();
    if (front->error) std::rethrow_exception(front->error);
    return handed_over(*front);
  }

 private:
  // Adds a thread up to the limit; a machine that cannot start more goes on with those it has.
  void add_thread() {
    if (static_cast<int>(threads_.size()) >= options_.most_threads) return;
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      options_.most_threads = 0;
    }
  }

  // A batch in progress; the decode threads claim its slots one by one.
  struct Pending {
    BatchRequest request;
    Batch batch;
    std::shared_ptr<void> memory;
    std::vector<std::size_t> offsets;  // of the images, and the end
    std::size_t bytes() const { return offsets.back(); }
    std::size_t claimed = 0, finished = 0;
    std::exception_ptr error;
  };

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  static std::size_t slot_count(const Pending& pending) { return pending.request.slots.size(); }

  // Returns true if another batch may be begun. Called with the lock held.
  bool has_space() const {
    return pending_.empty() ||
           (pending_.size() < static_cast<std::size_t>(std::max(1, options_.prefetch_batches)) &&
            pending_bytes_ < options_.prefetch_bytes);
  }

  // Returns a batch with an unclaimed slot; asks for the next request if the window has room.
  // Called with the lock held; nullptr if there is nothing to do now.
  std::shared_ptr<Pending> claim(std::unique_lock<std::mutex>& lock) {
    for (const auto& pending : pending_) {
      if (pending->claimed < slot_count(*pending)) return pending;
    }
    if (ended_ || opening_ || !has_space()) return nullptr;
    opening_ = true;  // one thread at a time keeps the requests in order
    lock.unlock();
    std::shared_ptr<Pending> opened;
    std::exception_ptr error;
    try {
      opened = open_next();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    opening_ = false;
    try {
      if (opened) pending_.push_back(opened);
    } catch (const std::bad_alloc&) {
      opened = nullptr;
      error = std::current_exception();
    }
    if (opened) {
      pending_bytes_ += opened->bytes();
      if (slot_count(*opened) == 0) done_.notify_all();  // no thread will finish its last slot
    } else {
      ended_ = true;
      source_error_ = error;
      done_.notify_all();
    }
    work_.notify_all();
    return opened;
  }

  std::shared_ptr<Pending> open_next() {
    std::optional<BatchRequest> request = next_request_();
    if (!request) return nullptr;
    auto pending = std::make_shared<Pending>();
    pending->batch.samples.resize(request->slots.size());
    pending->batch.padded = request->padded;
    pending->batch.part = request->part;
    pending->offsets = byte_offsets(*request, options_.form, source_.index());
    pending->memory = memory_->take(pending->bytes());
    pending->request = std::move(*request);
    return pending;
  }

  // Loads one image to its place in the batch.
  void load(Pending& pending, std::size_t slot, JpegDecoder& decoder) const {
    Sample& sample = pending.batch.samples[slot];
    std::byte* const start = static_cast<std::byte*>(pending.memory.get()) + pending.offsets[slot];
    if (options_.form == PixelForm::kStored) {
      auto* const pixels = reinterpret_cast<std::uint8_t*>(start);
      sample = source_.load(pending.request, slot, decoder, pixels);
      if (sample.problem) {
        std::fill(start, start + pending.offsets[slot + 1] - pending.offsets[slot], std::byte{0});
      }
      return;
    }
    auto* const pixels = reinterpret_cast<float*>(start);
    sample = source_.load(pending.request, slot, decoder, pixels);
    clear_padding(pending.request, sample, pixels);
  }

  // Moves the pixels into the batch for the consumer.
  Batch handed_over(Pending& pending) const {
    Batch& batch = pending.batch;
    void* const start = pending.memory.get();
    if (options_.form == PixelForm::kStored) {
      batch.stored = {std::move(pending.memory), static_cast<std::uint8_t*>(start)};
      pending.offsets.pop_back();
      batch.offsets = std::move(pending.offsets);
    } else {
      batch.images = {std::move(pending.memory), static_cast<float*>(start)};
    }
    return std::move(batch);
  }

  void work() {
    std::optional<JpegDecoder> decoder;  // constructed where its errors are caught
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const std::shared_ptr<Pending> pending = claim(lock);
      if (!pending) {
        if (!stopping_) work_.wait(lock);  // the end may have come during the request
        continue;
      }
      if (pending->claimed >= slot_count(*pending)) continue;  // other threads were faster
      const std::size_t slot = pending->claimed++;
      lock.unlock();
      std::exception_ptr error;
      try {
        if (!decoder) decoder.emplace();
        load(*pending, slot, *decoder);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error && !pending->error) pending->error = error;
      if (++pending->finished == slot_count(*pending)) done_.notify_all();
    }
  }

  const SampleSource& source_;
  LoaderOptions options_;
  RequestSource next_request_;
  const std::shared_ptr<BatchMemory> memory_;
  Stopwatch clock_;  // the consumer's
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Pending>> pending_;  // in order, the front is next
  std::size_t pending_bytes_ = 0;
  bool opening_ = false, ended_ = false, stopping_ = false;
  std::exception_ptr source_error_;
  std::vector<std::thread> threads_;
};

BatchLoader::BatchLoader(const SampleSource& source, LoaderOptions options,
                         RequestSource next_request)
    : pool_(std::make_unique<Pool>(source, std::move(options), std::move(next_request))) {}

BatchLoader::~BatchLoader() = default;

std::optional<Batch> BatchLoader::next(const std::function<bool()>& gives_up) {
  try {
    return pool_->next(gives_up);
  } catch (const Error& error) {
    if (!gives_up || error.kind() != ErrorKind::kInterrupted) throw;
    return std::nullopt;
  }
}

int BatchLoader::threads() const {
  return pool_->threads();
}

}  // namespace retina
