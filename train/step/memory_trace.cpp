#include "train/step/memory_trace.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <mutex>

namespace retina {

class MemoryTrace::Watch : public c10::MemoryReportingInfoBase {
 public:
  explicit Watch(c10::DeviceType device) : device_(device) {}

  // `bytes` is negative where memory is freed.
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*allocated*/,
                         std::size_t /*reserved*/, c10::Device device) override {
    if (device.type() != device_) return;
    const std::lock_guard lock(mutex_);
    now_ += bytes;
    peaks_.back() = std::max(peaks_.back(), now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  void begin_part() {
    const std::lock_guard lock(mutex_);
    peaks_.push_back(now_);
  }

  std::vector<std::int64_t> peaks() const {
    const std::lock_guard lock(mutex_);
    return peaks_;
  }

 private:
  const c10::DeviceType device_;
  mutable std::mutex mutex_;  // autograd has a thread for each GPU
  std::int64_t now_ = 0;
  std::vector<std::int64_t> peaks_ = {0};
};

MemoryTrace::MemoryTrace(c10::DeviceType device)
    : watch_(std::make_shared<Watch>(device)), guard_(c10::DebugInfoKind::PROFILER_STATE, watch_) {}

void MemoryTrace::begin_part() {
  watch_->begin_part();
}

std::vector<std::int64_t> MemoryTrace::peaks() const {
  return watch_->peaks();
}

}  // namespace retina
