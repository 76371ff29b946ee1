// Results of many threads, taken in order: `work(thread, i)` runs for i = first..count-1 on
// `thread_count` threads, `take()` returns the results one after the other. At most `window`
// results wait, which bounds the memory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace retina {

struct OrderedWorkOptions {
  std::size_t first = 0, count = 0;  // the numbers first..count-1
  int thread_count = 1;
};

template <class Result>
class OrderedWork {
 public:
  using Work = std::function<Result(int thread, std::size_t number)>;

  OrderedWork(const OrderedWorkOptions& options, Work work)
      : work_(std::move(work)),
        count_(options.count),
        next_(options.first),
        taken_(options.first),
        window_(static_cast<std::size_t>(options.thread_count) * 4) {
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

  ~OrderedWork() { stop(); }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  // The next result; call count - first times. Rethrows what its work threw.
  Result take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.count(taken_) != 0; });
    auto node = done_.extract(taken_++);
    changed_.notify_all();
    lock.unlock();
    if (node.mapped().error) std::rethrow_exception(node.mapped().error);
    return std::move(node.mapped().result);
  }

 private:
  struct Done {
    Result result{};
    std::exception_ptr error{};
  };

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(int thread) {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || next_ >= count_ || next_ < taken_ + window_; });
      if (stopped_ || next_ >= count_) return;
      const std::size_t number = next_++;
      lock.unlock();
      Done done;
      try {
        done.result = work_(thread, number);
      } catch (...) {
        done.error = std::current_exception();
      }
      lock.lock();
      done_.emplace(number, std::move(done));
      changed_.notify_all();
    }
  }

  Work work_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::size_t count_, next_, taken_, window_;
  std::map<std::size_t, Done> done_{};
  bool stopped_ = false;
  std::vector<std::thread> threads_{};
};

}  // namespace retina
