#include "shared/data/batch_memory.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace retina {

std::shared_ptr<void> allocate_plain(std::size_t bytes) {
  return std::make_shared_for_overwrite<std::max_align_t[]>((bytes + sizeof(std::max_align_t) - 1) /
                                                            sizeof(std::max_align_t));
}

std::shared_ptr<void> BatchMemory::take(std::size_t bytes) {
  Block block = take_free(bytes);
  if (block.bytes < bytes) {
    block = {};  // the smaller one goes before a larger one comes
    block = {.memory = allocate_(bytes), .bytes = bytes};
  }
  void* const start = block.memory.get();
  return {start, [owner = weak_from_this(), block = std::move(block)](void*) mutable {
            if (const auto alive = owner.lock()) alive->give_back(std::move(block));
          }};
}

// One of `bytes` or more where there is one, else any.
BatchMemory::Block BatchMemory::take_free(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return {};
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [bytes](const Block& one) { return one.bytes >= bytes; });
  std::iter_swap(fits == free_.end() ? free_.begin() : fits, free_.end() - 1);
  Block block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void BatchMemory::give_back(Block block) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    free_.push_back(std::move(block));
  } catch (const std::bad_alloc&) {
    // It is freed instead.
  }
}

}  // namespace retina
