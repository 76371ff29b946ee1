// What the compiler calls at each access to memory in a kernel (-fsanitize=thread), in place of
// ThreadSanitizer's library: grid.h's check_access().
#include <cstddef>
#include <cstdint>

#include "shared/base/cat.h"
#include "tests/gpu/emulation/grid.h"

namespace {

using retina::emulation::Access;

void check(const void* address, std::size_t bytes, Access access) {
  retina::emulation::check_access(address, bytes, access);
}

}  // namespace

extern "C" {

#define RETINA_HOOKS(bytes)                           \
  void __tsan_read##bytes(void* address) {            \
    check(address, bytes, Access::kRead);             \
  }                                                   \
  void __tsan_write##bytes(void* address) {           \
    check(address, bytes, Access::kWrite);            \
  }                                                   \
  void __tsan_unaligned_read##bytes(void* address) {  \
    check(address, bytes, Access::kRead);             \
  }                                                   \
  void __tsan_unaligned_write##bytes(void* address) { \
    check(address, bytes, Access::kWrite);            \
  }

RETINA_HOOKS(1)
RETINA_HOOKS(2)
RETINA_HOOKS(4)
RETINA_HOOKS(8)
RETINA_HOOKS(16)

void __tsan_read_range(void* address, std::size_t bytes) {
  check(address, bytes, Access::kRead);
}
void __tsan_write_range(void* address, std::size_t bytes) {
  check(address, bytes, Access::kWrite);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

}  // extern "C"
