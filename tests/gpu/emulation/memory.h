// Memory that emulated kernels use, and what they may do with it: stay inside, aligned; read
// nothing that was not written; and no two threads may touch an element, one of them to write,
// unless a barrier or the end of a kernel lies between or both do it atomically.
//
// Kernels are compiled with ThreadSanitizer's instrumentation, whose calls arrive in access.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace retina::emulation {

// When and by whom memory is touched. Blocks run one after the other; barriers cut a block into
// intervals, which count on from block to block.
struct Turn {
  std::uint32_t first_of_launch = 1, first_of_block = 1, interval = 1;
  std::uint16_t thread = 0;    // of the block
  bool has_all_blocks = true;  // else what others were to write counts as written
};

enum class Access { kRead, kWrite, kAtomic };

// A block's own memory is forgotten when the block ends.
enum class Kind { kDevice, kShared };

class Memory {
 public:
  // What is larger is address space, 0, of which only touched pages exist; else garbage.
  static constexpr std::size_t kSparseBytes = 64 << 20;

  Memory(Kind kind, std::size_t bytes, std::size_t element_bytes);
  ~Memory();
  Memory(const Memory&) = delete;

  void* data() const { return data_; }
  bool holds(const void* address) const {
    const auto* const byte = static_cast<const char*>(address);
    return byte >= data_ && byte < data_ + bytes_;
  }
  // Returns why a thread must not do this, or "".
  std::string problem_of(const void* address, std::size_t bytes, Access access, const Turn& turn);

  void forget_values();  // of shared memory
  // Counts all elements as written: somebody else than a kernel wrote some.
  void set_written() { is_written_ = true; }

 private:
  // Who last wrote and read an element; interval 0: nobody.
  struct Element {
    std::uint32_t written_in, read_in;
    std::uint16_t writer, reader;
    bool atomically;
  };

  std::size_t state_bytes() const;
  std::string conflict(Element& element, Access access, const Turn& turn) const;

  const Kind kind_;
  const std::size_t bytes_, element_bytes_;
  bool is_written_ = false;
  char* data_;
  Element* elements_ = nullptr;  // from a kernel's first access on
};

}  // namespace retina::emulation
