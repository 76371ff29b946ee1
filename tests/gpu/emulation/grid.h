// CUDA's grid of blocks of threads on one thread of a CPU. Blocks run one after the other, in
// random order; of a block's threads, those that wait for none go on in random order until they
// wait: at a barrier for the block, at a shuffle for their warp. What a GPU would answer with an
// error, a deadlock or chance ends the kernel, and take_error() says what and where, and with which
// RETINA_EMULATION_SEED the order comes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <type_traits>

#include "tests/gpu/emulation/memory.h"

namespace retina::emulation {

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
// Of the thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// Of each grid, only the blocks of which it is true; nullptr: all.
using Blocks = std::function<bool(const uint3& block, const dim3& grid)>;
void run_only(Blocks wanted);

// The first error since the last call, or nullptr; the text lives until the next error. Kernels do
// nothing from an error to this call.
const char* take_error();

// --- What a kernel's launch and CUDA's names become
// ------------------------------------------------

struct Kernel {
  const char* name;
  void (*run)(const void* arguments);
  const void* arguments;
  std::size_t argument_bytes;
  const void* stream;
};
void launch(const Kernel& kernel, const dim3& grid, const dim3& block, std::size_t shared_bytes);

// The names of all kernels launched so far, as the launches have them: "kernel<T>".
const std::set<std::string>& launched_kernels();

template <class Call>
void launch(const char* name, const Call& call, const dim3& grid, const dim3& block,
            std::size_t shared_bytes = 0, const void* stream = nullptr) {
  static_assert(std::is_trivially_copyable_v<Call>);  // as a GPU copies a kernel's arguments
  const auto run = [](const void* arguments) { (*static_cast<const Call*>(arguments))(); };
  launch({name, run, &call, sizeof call, stream}, grid, block, shared_bytes);
}

// Ends the kernel.
[[noreturn]] void fail(const std::string& text);

// Where threads meet.
struct Place {
  const char* file;
  int line;
  bool operator==(const Place& other) const { return line == other.line && file == other.file; }
};
void wait_for_block(const Place& place);
// Waits for the lanes of `mask`; what lane number `from` brought.
std::uint64_t exchange(unsigned mask, std::uint64_t brought, unsigned from, const Place& place);
unsigned ballot(unsigned mask, bool holds, const Place& place);
unsigned lane();

template <class T>
T shuffle(unsigned mask, const T& value, unsigned from, const Place& place) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, from, place);
  T result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

// This block's memory for the array that `place` stands for; elements of `element_bytes`.
void* shared_memory_at(const void* place, std::size_t bytes, std::size_t element_bytes);
void* dynamic_shared_memory_of(std::size_t element_bytes);

template <class Array>
Array& shared_memory(const void* place) {
  using Element = std::remove_all_extents_t<Array>;
  return *static_cast<Array*>(shared_memory_at(place, sizeof(Array), sizeof(Element)));
}
template <class Element>
Element* dynamic_shared_memory() {
  return static_cast<Element*>(dynamic_shared_memory_of(sizeof(Element)));
}

// The owner of the device's memory.
struct MemoryOwner {
  void (*begin)(const char* kernel, const void* stream);  // before a kernel's first access
  // Returns why the running thread must not do this, or "".
  std::string (*problem_of)(const void* address, std::size_t bytes, Access access,
                            const Turn& turn);
};
void set_memory_owner(const MemoryOwner& owner);

// Fails unless the running thread may do this; access.cpp calls it wherever a kernel does.
void check_access(const void* address, std::size_t bytes, Access access);

template <class T, class Change>
__attribute__((no_sanitize("thread"))) T atomic(T* place, const Change& change) {
  check_access(place, sizeof *place, Access::kAtomic);
  const T old = *place;
  *place = change(old);
  return old;
}

}  // namespace retina::emulation
