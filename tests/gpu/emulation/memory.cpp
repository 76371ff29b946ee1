#include "tests/gpu/emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "shared/base/cat.h"

namespace retina::emulation {
namespace {

constexpr std::uint16_t kSeveral = 0xFFFF;  // readers
constexpr unsigned char kGarbage = 0xFF;    // NaN of every type

void* sparse(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

}  // namespace

Memory::Memory(Kind kind, std::size_t bytes, std::size_t element_bytes)
    : kind_(kind),
      bytes_(bytes),
      element_bytes_(element_bytes),
      data_(static_cast<char*>(bytes > kSparseBytes ? sparse(bytes) : std::malloc(bytes))) {
  if (bytes <= kSparseBytes) forget_values();
}

Memory::~Memory() {
  if (elements_ != nullptr) munmap(elements_, state_bytes());
  if (bytes_ > kSparseBytes) {
    munmap(data_, bytes_);
  } else {
    std::memset(data_, kGarbage, bytes_);
    std::free(data_);
  }
}

std::size_t Memory::state_bytes() const {
  return (bytes_ / element_bytes_ + 1) * sizeof(Element);
}

void Memory::forget_values() {
  std::memset(data_, kGarbage, bytes_);
}

std::string Memory::problem_of(const void* address, std::size_t bytes, Access access,
                               const Turn& turn) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - data_);
  if (offset + bytes > bytes_) return "reaches past the end";
  if (elements_ == nullptr) elements_ = static_cast<Element*>(sparse(state_bytes()));
  const std::size_t end = (offset + bytes + element_bytes_ - 1) / element_bytes_;
  for (std::size_t i = offset / element_bytes_; i < end; ++i) {
    if (std::string text = conflict(elements_[i], access, turn); !text.empty()) {
      return cat(text, ", element ", i, " of ", bytes_ / element_bytes_);
    }
  }
  return "";
}

std::string Memory::conflict(Element& e, Access access, const Turn& turn) const {
  const bool is_shared = kind_ == Kind::kShared;
  const bool is_written = is_shared ? e.written_in >= turn.first_of_block
                                    : is_written_ || !turn.has_all_blocks || e.written_in != 0;
  if (access != Access::kWrite && !is_written) return "reads what nobody has written";
  // Whether another thread did that without a barrier between. Shared memory is each block's own.
  const std::uint32_t first = is_shared ? turn.first_of_block : turn.first_of_launch;
  const auto races = [&](std::uint32_t interval, std::uint16_t thread) {
    if (interval < first) return false;
    return interval < turn.first_of_block || (interval == turn.interval && thread != turn.thread);
  };
  const bool both_atomic = e.atomically && access == Access::kAtomic;
  if (races(e.written_in, e.writer) && !both_atomic) {
    return cat(access == Access::kRead ? "reads" : "writes", " what thread ", e.writer,
               e.written_in < turn.first_of_block ? " of another block" : "",
               " writes, with no barrier between");
  }
  if (access == Access::kRead) {
    const bool with_others = e.read_in == turn.interval && e.reader != turn.thread;
    e.reader = with_others ? kSeveral : turn.thread;
    e.read_in = turn.interval;
    return "";
  }
  if (races(e.read_in, e.reader))
    return "writes what another thread reads, with no barrier between";
  e.written_in = turn.interval;
  e.writer = turn.thread;
  e.atomically = access == Access::kAtomic;
  return "";
}

}  // namespace retina::emulation
