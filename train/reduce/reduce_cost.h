// What summing the gradients of one step cost this rank.
#pragma once

#include "shared/comm/comm_stats.h"

namespace retina {

struct ReduceCost {
  // The buckets' collectives, one after the other: bytes of this rank's buffers as they travel, and
  // the time from each call to its return, waiting for slower ranks counted. Bandwidths by
  // comm_stats.h.
  OperationStats traffic = {};
  // From the moment when the first bucket's sum began to the end of backward: as much of the
  // traffic's time costs nothing. On one rank that of the moment when the bucket was full.
  double overlap_seconds = 0;
};

}  // namespace retina
