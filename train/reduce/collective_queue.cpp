#include "train/reduce/collective_queue.h"

#include <utility>

namespace retina {

CollectiveQueue::CollectiveQueue(Communicator& communicator)
    : communicator_(communicator), thread_([this] { run(); }) {}

CollectiveQueue::~CollectiveQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Returns the work's number, counted from 1.
std::uint64_t CollectiveQueue::enqueue(std::function<void(Communicator&)> work) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!error_) queue_.push_back(std::move(work));
    number = ++pushed_count_;
  }
  changed_.notify_all();
  return number;
}

void CollectiveQueue::push(std::function<void(Communicator&)> work) {
  enqueue(std::move(work));
}

void CollectiveQueue::call(std::function<void(Communicator&)> work) {
  const std::uint64_t number = enqueue(std::move(work));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_count_ >= number || error_; });
  // An error after this work's end belongs to later work.
  if (done_count_ < number) std::rethrow_exception(error_);
}

void CollectiveQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !working_; });
  if (error_) std::rethrow_exception(error_);
}

void CollectiveQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    working_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      work(communicator_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    working_ = false;
    if (error) {
      error_ = error;
      queue_.clear();
    } else {
      ++done_count_;
    }
    changed_.notify_all();
  }
}

}  // namespace retina
