#include "tests/gpu/emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "shared/base/cat.h"

namespace retina::emulation {
namespace {

std::vector<Memory*> all;

constexpr std::uint16_t kSeveral = 0xFFFF;      // readers
constexpr std::size_t kSparseBytes = 64 << 20;  // what is larger takes only what is touched
constexpr unsigned char kGarbage = 0xFF;        // NaN of every type

// Address space of which only touched pages exist, and are 0.
void* sparse(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

}  // namespace

Memory::Memory(Content content, Size size)
    : content_(content), size_(size), bytes_(size.count * size.element_bytes) {
  const std::size_t offset = size.misalignment * size.element_bytes;
  base_ = is_sparse() ? sparse(offset + bytes_) : std::malloc(offset + bytes_);
  data_ = static_cast<char*>(base_) + offset;
  if (!is_sparse()) std::memset(data_, kGarbage, bytes_);
#ifdef RETINA_WITH_ACCESS_CHECKS
  elements_ = static_cast<Element*>(sparse(std::max<std::size_t>(1, size.count) * sizeof(Element)));
#else
  elements_ = nullptr;
#endif
  all.push_back(this);
}

Memory::~Memory() {
  std::erase(all, this);
  if (elements_ != nullptr) {
    munmap(elements_, std::max<std::size_t>(1, size_.count) * sizeof(Element));
  }
  if (is_sparse()) {
    munmap(base_, static_cast<std::size_t>(data_ - static_cast<char*>(base_)) + bytes_);
  } else {
    std::free(base_);
  }
}

bool Memory::is_sparse() const {
  return bytes_ > kSparseBytes;
}

Memory* Memory::with(const void* address) {
  static std::size_t latest = 0;
  if (latest < all.size() && all[latest]->holds(address)) return all[latest];
  for (latest = 0; latest < all.size(); ++latest) {
    if (all[latest]->holds(address)) return all[latest];
  }
  return nullptr;
}

void Memory::forget_values() {
  std::memset(data_, kGarbage, bytes_);
}

std::size_t Memory::unwritten_count() const {
  if (elements_ == nullptr || content_ != Content::kNothing) return 0;
  return static_cast<std::size_t>(std::count_if(
      elements_, elements_ + size_.count, [](const Element& e) { return e.written_in == 0; }));
}

std::string Memory::problem_of(const void* address, std::size_t bytes, Access access,
                               const Turn& turn) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - data_);
  if (offset + bytes > bytes_) return "reaches past the end";
  if (access != Access::kRead && content_ == Content::kInput) return "writes an input";
  if (elements_ == nullptr) return "";
  const std::size_t end = (offset + bytes + size_.element_bytes - 1) / size_.element_bytes;
  for (std::size_t i = offset / size_.element_bytes; i < end; ++i) {
    if (std::string text = conflict(elements_[i], access, turn); !text.empty()) {
      return cat(text, ", element ", i, " of ", size_.count);
    }
  }
  return "";
}

std::string Memory::conflict(Element& e, Access access, const Turn& turn) const {
  const bool is_shared = content_ == Content::kShared;
  const bool is_written = is_shared ? e.written_in >= turn.first_of_block : e.written_in != 0;
  const bool must_be_written = is_shared || (content_ == Content::kNothing && turn.has_all_blocks);
  if (access != Access::kWrite && must_be_written && !is_written) {
    return "reads what nobody has written";
  }
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
