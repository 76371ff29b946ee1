#include "shared/comm/collective.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Collective, IsDescribedAsItIsCalled) {
  using Kind = Collective::Kind;
  EXPECT_EQ(describe({Kind::kAllReduce, 12, ElementType::kBFloat16, ReduceOp::kMax}),
            "all_reduce(12 bfloat16, max)");
  EXPECT_EQ(describe({Kind::kAllReduceOrdered, 12, ElementType::kFloat16}),
            "all_reduce_ordered(12 float16)");
  EXPECT_EQ(describe({Kind::kBroadcast, 8, ElementType::kUint8, ReduceOp::kSum, 3}),
            "broadcast(8 uint8, root 3)");
  EXPECT_EQ(describe({.kind = Kind::kGather, .root = 1}), "gather(root 1)");
  EXPECT_EQ(describe({.kind = Kind::kBarrier}), "barrier");
}

TEST(Collective, RanksInARowAreOneRange) {
  EXPECT_EQ(describe_ranks({3}), "rank 3");
  EXPECT_EQ(describe_ranks({0, 1}), "ranks 0-1");
  EXPECT_EQ(describe_ranks({0, 2, 4, 5, 6, 9}), "ranks 0, 2, 4-6, 9");
}

}  // namespace
}  // namespace retina
