#include "shared/data/batch_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace retina {

std::shared_ptr<float[]> allocate_plain(std::size_t count) {
  return std::make_shared_for_overwrite<float[]>(count);
}

std::shared_ptr<float[]> BatchMemory::take(std::size_t count) {
  Block block = take_free(count);
  if (block.count < count) {
    block = {};  // the smaller one goes before a larger one comes
    block = {.floats = allocate_(count), .count = count};
  }
  float* const floats = block.floats.get();
  return {floats, [memory = weak_from_this(), block = std::move(block)](float*) mutable {
            if (const auto alive = memory.lock()) alive->give_back(std::move(block));
          }};
}

// One of `count` floats or more where there is one, else any.
BatchMemory::Block BatchMemory::take_free(std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return {};
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [count](const Block& one) { return one.count >= count; });
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
