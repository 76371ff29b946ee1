#include "shared/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace retina {

void use_huge_pages(void* begin, std::size_t size_bytes) {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + size_bytes) / kHugePage * kHugePage;
  if (first >= last) return;
  // A refusal changes nothing: small pages are used.
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace retina
