// Runs collectives on a thread while the caller computes, in the order in which they were queued.
// Open MPI's non-blocking collectives progress only inside its own calls; a thread that waits in
// blocking ones overlaps.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "shared/comm/communicator.h"

namespace retina {

// Between `push` and the end of `wait` only the queue's thread may use the communicator. All ranks
// must push and call the same collectives in the same order.
class CollectiveQueue {
 public:
  // `communicator` must outlive this.
  explicit CollectiveQueue(Communicator& communicator);
  // Runs what is queued to its end; discards its errors.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // Queues work, from any thread. Never waits for a collective.
  void push(std::function<void(Communicator&)> work);

  // Queues work, from any thread, and waits until it is done; earlier work is done first, later
  // work is not waited for. Throws its error, or an earlier one as `wait` does.
  void call(std::function<void(Communicator&)> work);

  // Waits until everything pushed so far is done. Throws the first error; the work queued after it
  // is dropped, here and on every later push.
  void wait();

 private:
  void run();
  std::uint64_t enqueue(std::function<void(Communicator&)> work);

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void(Communicator&)>> queue_;
  std::exception_ptr error_;
  std::uint64_t pushed_count_ = 0, done_count_ = 0;
  bool working_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace retina
