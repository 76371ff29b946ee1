#include "train/reduce/bucket_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "tests/support/ranks/thread_world.h"
#include "train/reduce/layout_check.h"

namespace retina {
namespace {

using testing::HasSubstr;
using Origin = BucketChoice::Origin;

constexpr std::size_t kValues = 20'000'000;
const std::vector<BucketParameter> kParameters = {
    {"stem", 100, "[100]"}, {"body", 1000, "[10, 100]"}, {"head", 50, "[50]"}};

RingTopology slow_link(int ranks) {
  return {.ranks = ranks, .intra_node = {.latency_seconds = 1e-4, .bytes_per_second = 50e6}};
}

// Every rank's choice; `options(rank)` are that rank's.
template <class Options>
std::vector<BucketChoice> choices(const RingTopology& ring, const Options& options,
                                  double* seconds = nullptr) {
  std::vector<BucketChoice> list(static_cast<std::size_t>(ring.ranks));
  ThreadWorld world({.ring = ring});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    list[static_cast<std::size_t>(rank.rank())] =
        choose_buckets(options(rank.rank()), kValues, rank);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  if (seconds != nullptr) *seconds = outcomes.front().seconds;
  return list;
}

TEST(BucketChoice, ComesFromTheMeasuredLink) {
  for (const int ranks : {2, 3, 4}) {
    double seconds = 0;
    const auto list = choices(
        slow_link(ranks), [](int) { return BucketOptions(); }, &seconds);
    EXPECT_LT(seconds, 1.5);
    EXPECT_EQ(list[0].origin, Origin::kMeasured);
    EXPECT_NEAR(list[0].fit->link.latency_seconds, 1e-4, 1e-7);
    EXPECT_NEAR(list[0].fit->link.bytes_per_second, 50e6, 50e3);
    const BucketSize want = best_bucket_bytes(*list[0].fit, 4.0 * kValues);
    for (const auto& choice : list) {
      EXPECT_EQ(choice.bytes.most, want.most);
      EXPECT_EQ(choice.bytes.edge, want.edge);
    }
  }
}

TEST(BucketChoice, MeasuresSlowLinksInSecondsToo) {
  double seconds = 0;
  const RingTopology ring{.ranks = 2,
                          .intra_node = {.latency_seconds = 0.01, .bytes_per_second = 100e3}};
  const auto list = choices(
      ring, [](int) { return BucketOptions(); }, &seconds);
  EXPECT_LT(seconds, 2);
  EXPECT_NEAR(list[0].fit->link.bytes_per_second, 100e3, 1e3);
}

TEST(BucketChoice, CountsBytesOnTheWire) {
  const auto wide = choices(slow_link(2), [](int) { return BucketOptions(); });
  const auto narrow = choices(
      slow_link(2), [](int) { return BucketOptions{.wire = {.type = ElementType::kBFloat16}}; });
  // The square root of half the bytes.
  EXPECT_NEAR(static_cast<double>(narrow[0].bytes.most),
              static_cast<double>(wide[0].bytes.most) / std::sqrt(2), 2e3);
}

TEST(BucketChoice, IsTheUsersWhereGiven) {
  double seconds = 0;
  const auto list = choices(
      slow_link(2), [](int) { return BucketOptions{.bucket_bytes = 12345}; }, &seconds);
  EXPECT_EQ(list[1].origin, Origin::kGiven);
  EXPECT_EQ(list[1].bytes.most, 12345U);
  EXPECT_EQ(seconds, 0) << "nothing is measured";
}

TEST(BucketChoice, MeasuresNothingAlone) {
  const auto alone = make_self_communicator();
  const BucketChoice choice = choose_buckets({}, kValues, *alone);
  EXPECT_EQ(choice.origin, Origin::kAlone);
  EXPECT_FALSE(choice.fit);
  EXPECT_EQ(alone->stats().total().calls, 0);
}

TEST(BucketChoice, OfTheRunThatContinuesIsTakenAsItWas) {
  const auto first = choices(slow_link(3), [](int) { return BucketOptions(); });
  const std::string stored = to_json(first[0], plan_buckets(kParameters, {.most = 500}));
  // The links have become other ones; only rank 0 has the run's folder.
  const RingTopology now{.ranks = 3,
                         .intra_node = {.latency_seconds = 0.01, .bytes_per_second = 1e9}};
  const auto again =
      choices(now, [&](int rank) { return BucketOptions{.stored = rank == 0 ? stored : ""}; });
  for (const auto& choice : again) {
    EXPECT_EQ(choice.origin, Origin::kStored);
    EXPECT_EQ(choice.bytes.most, first[0].bytes.most);
    EXPECT_EQ(choice.bytes.edge, first[0].bytes.edge);
  }
  EXPECT_EQ(to_json(again[0], plan_buckets(kParameters, {.most = 500})), stored)
      << "so a third start finds it too";
}

TEST(BucketChoice, IsMeasuredAnewForOtherRanksOrAnotherWire) {
  const auto first = choices(slow_link(3), [](int) { return BucketOptions(); });
  const std::string stored = to_json(first[0], plan_buckets(kParameters, {.most = 500}));
  const auto origin = [&](int ranks, const BucketOptions& options) {
    return choices(slow_link(ranks), [&](int) { return options; })[0].origin;
  };
  EXPECT_EQ(origin(2, {.stored = stored}), Origin::kMeasured);
  EXPECT_EQ(origin(3, {.wire = {.type = ElementType::kFloat16}, .stored = stored}),
            Origin::kMeasured);
  EXPECT_EQ(origin(3, {.wire = {.ordered = true}, .stored = stored}), Origin::kMeasured);
  EXPECT_EQ(origin(3, {.stored = "{\"ranks\": 3}"}), Origin::kMeasured) << "damaged: a warning";
  EXPECT_EQ(origin(3, {.stored = stored}), Origin::kStored);
}

TEST(BucketChoice, IsToldInOneLine) {
  BucketChoice choice{
      .ranks = 2,
      .wire = {.type = ElementType::kBFloat16},
      .fit = RingFit{.ranks = 2, .link = {.latency_seconds = 2e-4, .bytes_per_second = 47e6}}};
  choice.origin = Origin::kMeasured;
  const std::string text = describe(choice, plan_buckets(kParameters, {.most = 1000}));
  EXPECT_EQ(text,
            "gradients: 0.0 M values in 3 buckets of 0.00 to 0.00 MB (bf16); the link: 0.200 ms "
            "and 47.0 MB/s, measured");
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
  EXPECT_THAT(layout_error(others, {.most = 500}), HasSubstr("missing on rank 1"));
  EXPECT_THAT(layout_error(kParameters, {.most = 5000}), HasSubstr("of bucket"));
}

}  // namespace
}  // namespace retina
