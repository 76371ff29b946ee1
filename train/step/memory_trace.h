// The most memory that tensors hold in each part of a piece of work, as LibTorch's allocators
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
  // Watches what this thread, and autograd for it, allocates and frees on devices of this kind, to
  // the end of the trace's life. The first part begins.
  explicit MemoryTrace(c10::DeviceType device);

  // From any thread.
  void begin_part();

  // Of each part so far: the most bytes held at once, beyond those at the start.
  std::vector<std::int64_t> peaks() const;

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
  c10::DebugInfoGuard guard_;
};

}  // namespace retina
