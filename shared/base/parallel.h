// Work shared among threads, with a result that does not depend on how it is shared.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "shared/base/host.h"

namespace retina {

// Calls `work(i)` for each i in 0..count-1, from `thread_count` threads (0: usable_cores()) of
// which this one is the first; lower i start earlier. Rethrows the exception of the lowest i among
// those that threw.
template <class Work>
void for_each_parallel(std::size_t count, int thread_count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr problem;
  std::size_t problem_at = count;
  const auto run = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < problem_at) problem = std::current_exception(), problem_at = i;
        next = count;
      }
    }
  };
  const auto wanted = static_cast<std::size_t>(thread_count > 0 ? thread_count : usable_cores());
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(wanted, count); ++i) helpers.emplace_back(run);
    run();
  }
  if (problem) std::rethrow_exception(problem);
}

}  // namespace retina
