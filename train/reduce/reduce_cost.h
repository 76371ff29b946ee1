// The cost of summing the gradients of one step, on this rank.
#pragma once

#include "shared/comm/comm_stats.h"

namespace retina {

struct ReduceCost {
  // The buckets' collectives, one after the other: bytes of this rank's buffers as they travel, and
  // the time from each call to its return, including the wait for slower ranks. Bandwidths by
  // comm_stats.h.
  OperationStats traffic = {};
  // Time from the start of the first bucket's sum to the end of backward, which hides as much of
  // the traffic. On one rank the time since the first bucket was full.
  double overlap_seconds = 0;
};

}  // namespace retina
