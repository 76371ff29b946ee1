// What a rank's collectives cost so far, and the two bandwidths that nccl-tests reports for them.
#pragma once

#include <cstdint>

namespace retina {

// Sums over the finished calls of one kind of collective on this rank.
struct OperationStats {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // of this rank's buffer, as nccl-tests' "size"; not what travels
  double seconds = 0;      // from the call to its return: waiting for slower ranks counts
};

struct CommStats {
  OperationStats all_reduce = {}, all_reduce_ordered = {}, broadcast = {}, gather = {},
                 barrier = {};
};

// bytes / seconds in bytes/s; 0 before any time has passed.
inline double algorithm_bandwidth(const OperationStats& stats) {
  return stats.seconds > 0 ? static_cast<double>(stats.bytes) / stats.seconds : 0;
}

// Of all-reduces over `ranks` n: algorithm bandwidth * 2(n-1)/n, what each rank's link carries per
// direction (nccl-tests, PERFORMANCE.md). Comparable over rank counts. 0 for one rank.
inline double all_reduce_bus_bandwidth(const OperationStats& stats, int ranks) {
  return algorithm_bandwidth(stats) * 2.0 * (ranks - 1) / ranks;
}

}  // namespace retina
