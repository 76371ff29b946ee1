#include "shared/comm/collective_queue.h"

#include <chrono>
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

void CollectiveQueue::push(std::function<void(Communicator&)> work) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void CollectiveQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !working_; });
  if (error_) std::rethrow_exception(error_);
}

double CollectiveQueue::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_seconds_;
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
    const auto began = std::chrono::steady_clock::now();
    std::exception_ptr error;
    try {
      work(communicator_);
    } catch (...) {
      error = std::current_exception();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    lock.lock();
    working_ = false;
    busy_seconds_ += took.count();
    if (error) {
      error_ = error;
      queue_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace retina
