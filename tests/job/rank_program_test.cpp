#include "shared/job/rank_program.h"

#include <gtest/gtest.h>

#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

TEST(AloneOnNode, IsWhoseTextNobodyElseHas) {
  const std::vector<std::string> texts{"a", "b", "a", ""};
  std::vector<char> alone(texts.size());
  ThreadWorld world({.ring = {.ranks = 4}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    alone[rank] = is_alone_on_node(comm, texts[rank]) ? 1 : 0;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  EXPECT_EQ(alone, (std::vector<char>{0, 1, 0, 0}));
}

}  // namespace
}  // namespace retina
