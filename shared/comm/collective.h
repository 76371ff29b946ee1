// What one rank says that it is calling: compared between ranks and told in errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

struct Collective {
  enum class Kind { kAllReduce, kAllReduceOrdered, kBroadcast, kGather, kBarrier };
  Kind kind = Kind::kBarrier;
  std::size_t count = 0;  // elements, equal on all ranks; 0 for gather and barrier
  ElementType type = ElementType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;

  bool operator==(const Collective&) const = default;
};

// "all_reduce(1000 float32, sum)", "broadcast(8 uint8, root 0)", "barrier".
std::string describe(const Collective& what);

// "rank 3", "ranks 0-2, 5": `ranks` ascending, not empty.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace retina
