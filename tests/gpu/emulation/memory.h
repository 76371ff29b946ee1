// Memory that emulated kernels use, and what they may do with it: stay inside, aligned; write no
// input; read nothing that was not written; and no two threads may touch an element, one of them
// to write, unless a barrier or the end of a kernel lies between or both do it atomically.
//
// Kernels are compiled with ThreadSanitizer's instrumentation, whose calls arrive in access.cpp. In
// the sanitizers' own builds nothing calls here: AddressSanitizer looks at the bounds there.
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

// What a kernel finds: an input, which it must not write; a state, which it may change; or nothing
// yet. Shared memory is forgotten when its block ends.
enum class Content { kInput, kState, kNothing, kShared };

class Memory {
 public:
  // `misalignment` elements lie between a multiple of 16 bytes and the first.
  struct Size {
    std::size_t count, element_bytes, misalignment = 0;
  };
  Memory(Content content, Size size);
  ~Memory();
  Memory(const Memory&) = delete;

  void* data() const { return data_; }
  bool is_sparse() const;
  bool holds(const void* address) const {
    const auto* const byte = static_cast<const char*>(address);
    return byte >= data_ && byte < data_ + bytes_;
  }
  // Why a thread must not do this, or "".
  std::string problem_of(const void* address, std::size_t bytes, Access access, const Turn& turn);

  // Elements that no kernel has written; 0 where that is not recorded.
  std::size_t unwritten_count() const;
  void forget_values();  // of shared memory

  // The one that holds `address`, or nullptr. A kernel's accesses are near each other.
  static Memory* with(const void* address);

 private:
  // Who last wrote and read an element; interval 0: nobody.
  struct Element {
    std::uint32_t written_in, read_in;
    std::uint16_t writer, reader;
    bool atomically;
  };

  std::string conflict(Element& element, Access access, const Turn& turn) const;

  const Content content_;
  const Size size_;
  const std::size_t bytes_;
  void* base_;
  char* data_;
  Element* elements_;
};

}  // namespace retina::emulation
