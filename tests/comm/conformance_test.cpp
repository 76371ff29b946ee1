#include "tests/comm/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

class Conformance : public testing::TestWithParam<ConformanceRule> {};
class ThreadConformance : public testing::TestWithParam<std::tuple<int, ConformanceRule>> {};

TEST_P(Conformance, SelfKeeps) {
  const auto comm = make_self_communicator();
  Findings findings;
  GetParam().check(*comm, findings);
  EXPECT_THAT(findings.list(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Communicator, Conformance, testing::ValuesIn(conformance_rules()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(ThreadConformance, ThreadsKeep) {
  const auto& [ranks, rule] = GetParam();
  ThreadWorld world({.ring = {.ranks = ranks, .ranks_per_node = 3}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    Findings findings;
    rule.check(comm, findings);
    EXPECT_THAT(findings.list(), testing::IsEmpty()) << "rank " << comm.rank();
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

INSTANTIATE_TEST_SUITE_P(Communicator, ThreadConformance,
                         testing::Combine(testing::Values(1, 2, 3, 8),
                                          testing::ValuesIn(conformance_rules())),
                         [](const auto& instance) {
                           return std::string(std::get<1>(instance.param).name) + "On" +
                                  std::to_string(std::get<0>(instance.param));
                         });

}  // namespace
}  // namespace retina
