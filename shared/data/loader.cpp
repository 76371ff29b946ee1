#include "shared/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/image/jpeg.h"

namespace retina {

std::shared_ptr<float[]> allocate_plain(std::size_t count) {
  return std::make_shared<float[]>(count);  // zeroed
}

class BatchLoader::Pool {
 public:
  Pool(const SampleSource& source, LoaderOptions options, RequestSource next_request)
      : source_(source), options_(std::move(options)), next_request_(std::move(next_request)) {
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

  std::optional<Batch> next() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] {
      return pending_.empty() ? ended_
                              : pending_.front()->finished == slot_count(*pending_.front());
    });
    if (pending_.empty()) {
      if (source_error_) std::rethrow_exception(source_error_);
      return std::nullopt;
    }
    const std::shared_ptr<Pending> front = std::move(pending_.front());
    pending_.pop_front();
    work_.notify_all();
    if (front->error) std::rethrow_exception(front->error);
    return std::move(front->batch);
  }

 private:
  // A batch under way; its slots are claimed one by one by the decode threads.
  struct Pending {
    BatchRequest request;
    Batch batch;
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

  std::size_t plane_count(const BatchRequest& request) const {
    return 3 * static_cast<std::size_t>(request.padded_width_px) *
           static_cast<std::size_t>(request.padded_height_px);
  }

  // A batch with an unclaimed slot; asks for the next request when the window has room. Called with
  // the lock held; nullptr when there is nothing to do now.
  std::shared_ptr<Pending> claim(std::unique_lock<std::mutex>& lock) {
    for (const auto& pending : pending_) {
      if (pending->claimed < slot_count(*pending)) return pending;
    }
    if (ended_ || opening_ ||
        pending_.size() >= static_cast<std::size_t>(std::max(1, options_.prefetch_batches))) {
      return nullptr;
    }
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
    if (opened) {
      pending_.push_back(opened);
      if (slot_count(*opened) == 0) done_.notify_all();  // nobody will finish its last slot
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
    pending->batch.padded_width_px = request->padded_width_px;
    pending->batch.padded_height_px = request->padded_height_px;
    pending->batch.part = request->part;
    const std::size_t count = plane_count(*request) * request->slots.size();
    pending->batch.images = options_.allocate(count);
    std::fill_n(pending->batch.images.get(), count, 0.0F);
    pending->request = std::move(*request);
    return pending;
  }

  void work() {
    std::optional<JpegDecoder> decoder;  // built where its errors are caught
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const std::shared_ptr<Pending> pending = claim(lock);
      if (!pending) {
        work_.wait(lock);
        continue;
      }
      if (pending->claimed >= slot_count(*pending)) continue;  // others were faster
      const std::size_t slot = pending->claimed++;
      lock.unlock();
      std::exception_ptr error;
      try {
        if (!decoder) decoder.emplace();
        float* pixels = pending->batch.images.get() + slot * plane_count(pending->request);
        pending->batch.samples[slot] = source_.load(pending->request, slot, *decoder, pixels);
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
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Pending>> pending_;  // in order, the front is next
  bool opening_ = false, ended_ = false, stopping_ = false;
  std::exception_ptr source_error_;
  std::vector<std::thread> threads_;
};

BatchLoader::BatchLoader(const SampleSource& source, LoaderOptions options,
                         RequestSource next_request)
    : pool_(std::make_unique<Pool>(source, std::move(options), std::move(next_request))) {}

BatchLoader::~BatchLoader() = default;

std::optional<Batch> BatchLoader::next() {
  return pool_->next();
}

}  // namespace retina
