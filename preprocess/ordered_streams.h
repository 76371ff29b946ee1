// Results of many threads, taken in order: `work(thread, i, put)` runs for i = first..count-1 on
// `thread_count` threads and gives as many results as it likes to `put`; `take()` returns those of
// the first number, then those of the second, and so on. The memory is bounded: at most
// 4 * thread_count numbers are begun, and `put` waits while results of `limit_bytes` wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace retina {

struct OrderedStreamsOptions {
  std::size_t first = 0, count = 0;  // the numbers first..count-1
  int thread_count = 1;
  std::size_t limit_bytes = std::numeric_limits<std::size_t>::max();  // bytes of waiting results
};

template <class Result>
class OrderedStreams {
 public:
  // Adds a result of its work's number; `size_bytes` counts against the limit.
  using Put = std::function<void(Result result, std::size_t size_bytes)>;
  using Work = std::function<void(int thread, std::size_t number, const Put& put)>;

  OrderedStreams(const OrderedStreamsOptions& options, Work work)
      : options_(options), work_(std::move(work)), next_(options.first), taken_(options.first) {
    try {
      for (int thread = 0; thread < options.thread_count; ++thread) {
        threads_.emplace_back([this, thread] { run(thread); });
      }
    } catch (const std::system_error& error) {
      stop();
      throw Error(ErrorKind::kUnavailable,
                  cat("cannot start ", options.thread_count, " threads (", error.what(), ")"),
                  "ask for fewer with --threads");
    }
  }

  ~OrderedStreams() { stop(); }
  OrderedStreams(const OrderedStreams&) = delete;
  OrderedStreams& operator=(const OrderedStreams&) = delete;

  // The next result of the present number; nothing where it has no more: the next call is about
  // the next number, of which there must be one. Rethrows what its work threw, in place of that
  // nothing.
  std::optional<Result> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      const auto stream = streams_.find(taken_);
      return stream != streams_.end() && (!stream->second.results.empty() || stream->second.ended);
    });
    Stream& stream = streams_[taken_];
    std::optional<Result> result;
    std::exception_ptr error;
    if (stream.results.empty()) {
      error = stream.error;
      streams_.erase(taken_++);
    } else {
      waiting_bytes_ -= stream.results.front().second;
      result = std::move(stream.results.front().first);
      stream.results.pop_front();
    }
    changed_.notify_all();
    lock.unlock();
    if (error) std::rethrow_exception(error);
    return result;
  }

 private:
  // So many results of the number that is being taken may always wait.
  static constexpr std::size_t kAlwaysWaiting = 2;

  struct Stream {
    std::deque<std::pair<Result, std::size_t>> results{};  // with their sizes
    bool ended = false;
    std::exception_ptr error{};
  };
  struct Stopped {};  // unwinds a work that nobody takes from any more

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void put(std::size_t number, Result result, std::size_t size_bytes) {
    std::unique_lock lock(mutex_);
    Stream& stream = streams_[number];
    changed_.wait(lock, [&] {
      return stopped_ || waiting_bytes_ < options_.limit_bytes ||
             (number == taken_ && stream.results.size() < kAlwaysWaiting);
    });
    if (stopped_) throw Stopped();
    waiting_bytes_ += size_bytes;
    stream.results.emplace_back(std::move(result), size_bytes);
    changed_.notify_all();
  }

  void run(int thread) {
    const std::size_t window = static_cast<std::size_t>(options_.thread_count) * 4;
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock,
                    [&] { return stopped_ || next_ >= options_.count || next_ < taken_ + window; });
      if (stopped_ || next_ >= options_.count) return;
      const std::size_t number = next_++;
      lock.unlock();
      std::exception_ptr error;
      try {
        work_(thread, number, [&](Result result, std::size_t size_bytes) {
          put(number, std::move(result), size_bytes);
        });
      } catch (const Stopped&) {
        return;
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      streams_[number].ended = true;
      streams_[number].error = error;
      changed_.notify_all();
    }
  }

  OrderedStreamsOptions options_;
  Work work_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::size_t next_, taken_, waiting_bytes_ = 0;
  std::map<std::size_t, Stream> streams_{};  // a map: its elements need not move
  bool stopped_ = false;
  std::vector<std::thread> threads_{};
};

}  // namespace retina
