#include <gtest/gtest.h>

#include "shared/comm/comm_stats.h"

namespace retina {
namespace {

// The example of nccl-tests' PERFORMANCE.md: bus bandwidth is 2(n-1)/n times the algorithm's.
TEST(Bandwidth, OfTheBusIsNcclTestsFormula) {
  const OperationStats stats{.calls = 2, .bytes = 4'000'000, .seconds = 0.5};
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(stats), 8e6);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(stats, 2), 8e6);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(stats, 8), 14e6);
  EXPECT_DOUBLE_EQ(all_reduce_bus_bandwidth(stats, 1), 0);
}

TEST(Bandwidth, IsZeroBeforeAnyTimeHasPassed) {
  EXPECT_EQ(algorithm_bandwidth({}), 0);
  EXPECT_EQ(all_reduce_bus_bandwidth({}, 4), 0);
}

}  // namespace
}  // namespace retina
