// Functions that take turns on one thread of the operating system, each on a stack of its own.
#pragma once

#include <cstddef>

namespace retina::emulation {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // Calls body() at the next resume(). What an earlier one left unfinished never goes on; nothing
  // on its stack is destroyed.
  void start(void (*body)());
  // Runs until the body pauses, false, or ends, true.
  bool resume();
  // From within a body: back to where resume() was called.
  static void pause();

  bool holds(const void* address) const {
    const auto* const byte = static_cast<const char*>(address);
    return byte >= stack_ && byte < stack_ + kStackBytes;
  }

 private:
  static constexpr std::size_t kStackBytes = 64 << 10;

  [[noreturn]] static void run_bodies();

  char* stack_;
  void (*body_)() = nullptr;
  bool ended_ = false;
  void *inside_ = nullptr, *outside_ = nullptr;  // stack pointers of who does not run
};

}  // namespace retina::emulation
