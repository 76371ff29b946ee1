// Memory of batches that were dropped, for those to come: in a steady state nothing is allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "shared/data/batch.h"

namespace retina {

// Made with std::make_shared; what it gave out may outlive it. Thread-safe.
class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  explicit BatchMemory(BatchAllocator allocate) : allocate_(std::move(allocate)) {}

  // At least `bytes` with anything in them; they come back when their last owner drops them, or are
  // freed where this is gone. Allocates where none of that size has come back; a smaller one goes
  // for it.
  std::shared_ptr<void> take(std::size_t bytes);

 private:
  struct Block {
    std::shared_ptr<void> memory = {};
    std::size_t bytes = 0;
  };

  Block take_free(std::size_t bytes);
  void give_back(Block block) noexcept;

  const BatchAllocator allocate_;
  std::mutex mutex_;
  std::vector<Block> free_;
};

}  // namespace retina
