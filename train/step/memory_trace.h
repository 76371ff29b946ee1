// Measures the peak memory of tensors in each part of a piece of work, as LibTorch's allocators
// report it.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace retina {

class MemoryTrace {
 public:
  // Watches allocations and releases of this thread, and of autograd for it, on devices of this
  // kind, until the trace is destroyed. Begins the first part.
  explicit MemoryTrace(c10::DeviceType device);

  // Begins the next part; callable from any thread.
  void begin_part();

  // Returns, for each part so far, the most bytes held at once, beyond those at the start.
  std::vector<std::int64_t> peaks() const;

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
  c10::DebugInfoGuard guard_;
};

}  // namespace retina
