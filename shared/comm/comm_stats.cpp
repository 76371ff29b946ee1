#include "shared/comm/comm_stats.h"

#include <initializer_list>

namespace retina {

OperationStats CommStats::total() const {
  OperationStats sum;
  for (const auto& part : {all_reduce, all_reduce_ordered, broadcast, gather, barrier}) {
    sum.calls += part.calls;
    sum.bytes += part.bytes;
    sum.seconds += part.seconds;
  }
  return sum;
}

double algorithm_bandwidth(const OperationStats& stats) {
  return stats.seconds > 0 ? static_cast<double>(stats.bytes) / stats.seconds : 0;
}

double all_reduce_bus_bandwidth(const OperationStats& stats, int ranks) {
  return algorithm_bandwidth(stats) * 2.0 * (ranks - 1) / ranks;
}

}  // namespace retina
