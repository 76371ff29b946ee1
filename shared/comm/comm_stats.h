// The cost of a rank's collectives so far, and the two bandwidths that nccl-tests reports for them.
#pragma once

#include <cstdint>

namespace retina {

// Sums over the finished calls of one kind of collective on this rank.
struct OperationStats {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // size of this rank's buffer, as nccl-tests' "size"; not the bytes sent
  double seconds = 0;      // from the call to its return, including the wait for slower ranks
};

struct CommStats {
  OperationStats all_reduce = {}, all_reduce_ordered = {}, broadcast = {}, gather = {},
                 barrier = {};
};

// Returns bytes / seconds in bytes/s; 0 before any time has passed.
inline double algorithm_bandwidth(const OperationStats& stats) {
  return stats.seconds > 0 ? static_cast<double>(stats.bytes) / stats.seconds : 0;
}

// Returns the bus bandwidth of all-reduces over `ranks` n: algorithm bandwidth * 2(n-1)/n, the load
// of each rank's link per direction (nccl-tests, PERFORMANCE.md). Comparable over rank counts. 0
// for one rank.
inline double all_reduce_bus_bandwidth(const OperationStats& stats, int ranks) {
  return algorithm_bandwidth(stats) * 2.0 * (ranks - 1) / ranks;
}

}  // namespace retina
