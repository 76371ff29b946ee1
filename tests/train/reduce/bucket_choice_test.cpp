#include "train/reduce/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

using testing::HasSubstr;
const std::vector<BucketParameter> kParameters = {
    {"stem", 100, "[100]"}, {"body", 1000, "[10, 100]"}, {"head", 50, "[50]"}};

// Every rank's size; only rank 0 has what the run's folder holds.
std::vector<BucketSize> sizes(int ranks, const BucketOptions& options) {
  std::vector<BucketSize> list(static_cast<std::size_t>(ranks));
  ThreadWorld world({.ring = {.ranks = ranks}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    BucketOptions own = options;
    if (!rank.is_root()) own.stored.clear();
    list[static_cast<std::size_t>(rank.rank())] = choose_buckets(own, rank);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  return list;
}

std::string stored_of(const BucketSize& size, const WireOptions& wire, int ranks) {
  return to_json(size, plan_buckets(kParameters, size), wire, ranks);
}

constexpr BucketSize kRun = {.most = 500, .edge = 7};  // of a run that continues

TEST(BucketChoice, IsTheDefaultOnEveryRank) {
  for (const int ranks : {1, 2, 3}) {
    for (const BucketSize& size : sizes(ranks, {})) {
      EXPECT_EQ(size.most, kDefaultBucketBytes);
      EXPECT_EQ(size.edge, kDefaultBucketBytes / kEdgePart);
    }
  }
}

TEST(BucketChoice, IsTheUsersWhereGiven) {
  const std::string stored = stored_of(kRun, {}, 2);
  for (const BucketSize& size : sizes(2, {.bucket_bytes = 64'000, .stored = stored})) {
    EXPECT_EQ(size.most, 64'000U);
    EXPECT_EQ(size.edge, 2000U);
  }
}

TEST(BucketChoice, OfTheRunThatContinuesIsTakenAsItWas) {
  const std::string stored = stored_of(kRun, {}, 3);
  for (const BucketSize& size : sizes(3, {.stored = stored})) {
    EXPECT_EQ(size.most, kRun.most);
    EXPECT_EQ(size.edge, kRun.edge);
    EXPECT_EQ(stored_of(size, {}, 3), stored) << "so a third start finds it too";
  }
}

TEST(BucketChoice, IsTheDefaultForOtherRanksOrAnotherWire) {
  const std::string stored = stored_of(kRun, {}, 3);
  const auto most = [&](int ranks, const BucketOptions& options) {
    return sizes(ranks, options)[0].most;
  };
  EXPECT_EQ(most(2, {.stored = stored}), kDefaultBucketBytes);
  EXPECT_EQ(most(3, {.wire = {.type = ElementType::kFloat16}, .stored = stored}),
            kDefaultBucketBytes);
  EXPECT_EQ(most(3, {.wire = {.ordered = true}, .stored = stored}), kDefaultBucketBytes);
  EXPECT_EQ(most(3, {.stored = "{\"ranks\": 3}"}), kDefaultBucketBytes) << "damaged: a warning";
  EXPECT_EQ(most(3, {.stored = stored}), kRun.most);
}

TEST(BucketChoice, IsToldInOneLine) {
  EXPECT_EQ(describe(plan_buckets(kParameters, {.most = 1000}), {.type = ElementType::kBFloat16}),
            "gradients: 0.0 M values in 3 buckets of 0.00 to 0.00 MB (bf16)");
}

// What rank 0 says when rank 1 has `others`.
std::string layout_error(const std::vector<BucketParameter>& others, const BucketSize& size) {
  ThreadWorld world({.ring = {.ranks = 3}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    const auto& mine = rank.rank() == 1 ? others : kParameters;
    const BucketSize& mine_size = rank.rank() == 1 ? size : BucketSize{.most = 500};
    check_same_layout(mine, plan_buckets(mine, mine_size), rank);
  });
  return outcomes[0].message;
}

TEST(LayoutCheck, NamesTheFirstParameterThatDiffers) {
  EXPECT_EQ(layout_error(kParameters, {.most = 500}), "");
  auto others = kParameters;
  others[1].layout = "[100, 10]";
  EXPECT_THAT(layout_error(others, {.most = 500}),
              testing::AllOf(HasSubstr("parameter 2 is body [100, 10]"), HasSubstr("on rank 1"),
                             HasSubstr("body [10, 100]")));
  others = kParameters;
  others[2].name = "tail";
  EXPECT_THAT(layout_error(others, {.most = 500}), HasSubstr("parameter 3 is tail [50]"));
  others = {kParameters[0], kParameters[1]};
  EXPECT_THAT(layout_error(others, {.most = 500}), HasSubstr("on rank 1"));
  EXPECT_THAT(layout_error(kParameters, {.most = 5000}), HasSubstr("of bucket"));
}

}  // namespace
}  // namespace retina
