#include "train/reduce/bucket_plan.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace retina {
namespace {

const std::vector<BucketParameter> kPlanned = {
    {"a", 10}, {"b", 5}, {"c", 100}, {"d", 1}, {"e", 30}};

TEST(BucketPlan, FillsBucketsFromTheLastParameterToTheFirst) {
  const BucketPlan plan = plan_buckets(kPlanned, {.most = 40});
  ASSERT_EQ(plan.bucket_counts, (std::vector<std::size_t>{31, 100, 15}));
  EXPECT_EQ(plan.slots[4].bucket, 0U);
  EXPECT_EQ(plan.slots[3].offset, 30U);
  EXPECT_EQ(plan.slots[2].bucket, 1U) << "larger than a bucket: a bucket of its own";
  EXPECT_EQ(plan.slots[0].offset, 5U);
}

TEST(BucketPlan, GivesEveryElementOnePlace) {
  for (const BucketSize& size :
       std::vector<BucketSize>{{1, 0}, {7, 3}, {40, 0}, {40, 12}, {1000, 31}, {1000, 1000}}) {
    const BucketPlan plan = plan_buckets(kPlanned, size);
    std::set<std::pair<std::size_t, std::size_t>> places;
    std::size_t total = 0;
    for (const auto& slot : plan.slots) {
      for (std::size_t i = 0; i < slot.count; ++i) places.emplace(slot.bucket, slot.offset + i);
      total += slot.count;
      EXPECT_LE(slot.offset + slot.count, plan.bucket_counts[slot.bucket]);
    }
    EXPECT_EQ(places.size(), total);
  }
}

TEST(BucketPlan, EndsTheFirstBucketEarlyAndKeepsTheLastSmall) {
  // From the end: 30 is enough for the first; the rest would be one bucket, but its last 15 values
  // (a and b) make one of their own.
  const BucketPlan plan = plan_buckets(kPlanned, {.most = 1000, .edge = 12});
  EXPECT_EQ(plan.bucket_counts, (std::vector<std::size_t>{30, 101, 15}));
  EXPECT_EQ(plan_buckets(kPlanned, {.most = 1000, .edge = 1}).bucket_counts,
            (std::vector<std::size_t>{30, 106, 10}));
  EXPECT_EQ(plan_buckets(kPlanned, {.most = 1000, .edge = 1000}).bucket_counts,
            (std::vector<std::size_t>{146}))
      << "all of it is an edge";
}

TEST(BucketPlan, SendsNoSmallParameterAlone) {
  EXPECT_EQ(plan_buckets(kPlanned, {.most = 40, .edge = 12}).bucket_counts,
            (std::vector<std::size_t>{30, 101, 15}))
      << "d goes with c, although c is larger than a bucket";
}

TEST(BucketPlan, HashTellsLayoutsApart) {
  const auto hash = plan_buckets(kPlanned, {.most = 40}).layout_hash;
  EXPECT_EQ(plan_buckets(kPlanned, {.most = 40}).layout_hash, hash);
  EXPECT_NE(plan_buckets(kPlanned, {.most = 41 + 100}).layout_hash, hash);
  auto renamed = kPlanned;
  renamed[1].name = "z";
  EXPECT_NE(plan_buckets(renamed, {.most = 40}).layout_hash, hash);
  auto reshaped = kPlanned;
  reshaped[1].layout = "[5, 1]";
  EXPECT_NE(plan_buckets(reshaped, {.most = 40}).layout_hash, hash);
}

}  // namespace
}  // namespace retina
