#include "tests/fuzz/memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

std::size_t live = 0, peak = 0;

void* counted(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  live += ::malloc_usable_size(memory);
  peak = std::max(peak, live);
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) live -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// The array forms call these.
void* operator new(std::size_t size) {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}

namespace retina {

std::size_t live_bytes() {
  return live;
}
std::size_t peak_bytes() {
  return peak;
}
void reset_peak() {
  peak = live;
}

}  // namespace retina
