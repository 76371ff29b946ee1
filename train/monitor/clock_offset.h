// How far the ranks' clocks are apart: Cristian's method (1989, "Probabilistic clock
// synchronization") over the Communicator. Rank 0 reads its clock (t0) and broadcasts a byte; rank
// r reads its own (s) on receipt and broadcasts it; rank 0 reads its clock again (t1). Rank r read
// s between t0 and t1, so its clock is s - (t0 + t1) / 2 ahead of rank 0's, wrong by (t1 - t0) / 2
// at most. Of several rounds the one with the smallest t1 - t0 counts.
#pragma once

#include <cstdint>
#include <functional>

#include "shared/comm/communicator.h"

namespace retina {

struct ClockOffset {
  std::int64_t ahead_ns = 0;  // of rank 0's clock; 0 on rank 0
  std::int64_t error_ns = 0;  // at most
};

// This rank's clock against rank 0's. `clock_ns` reads this rank's clock. At the time of the call:
// clocks drift, commonly by some µs a second. 2 broadcasts a round and rank. Collective.
ClockOffset measure_clock_offset(Communicator& communicator,
                                 const std::function<std::int64_t()>& clock_ns, int rounds = 8);

}  // namespace retina
