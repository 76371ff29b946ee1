#include "shared/numeric/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

namespace retina {
namespace {

// Known answers of Random123's kat_vectors ("philox4x32 10").
TEST(Philox, GivesTheKnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  const auto philox = [](PhiloxBlock counter, PhiloxKey key) {
    const PhiloxBlock block = philox4x32(counter, key);
    return Block{block.r0, block.r1, block.r2, block.r3};
  };
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The table on the format page.
TEST(RandomStream, GivesTheTestVectors) {
  const RandomStream stream{.seed = 0x0123456789abcdef, .use = RandomUse::kShuffle, .stream = 5};
  EXPECT_EQ(stream.bits(0), 0x34673fc7f7cd5f8aU);
  EXPECT_EQ(stream.bits(1), 0x56eb980a0dd85e9eU);
  EXPECT_EQ(stream.bits(std::uint64_t{1} << 32), 0x6fec50e58a6686c4U);
  EXPECT_EQ(stream.unit(0), 0.20470045692473116);
  EXPECT_EQ(stream.unit(1), 0.33953237767659183);
  EXPECT_EQ(stream.unit(std::uint64_t{1} << 32), 0.43719964603442385);
  EXPECT_EQ(stream.below(0, 10), 2U);
  EXPECT_EQ(stream.below(1, 10), 3U);
  EXPECT_EQ(stream.below(std::uint64_t{1} << 32, 10), 4U);
  EXPECT_EQ(permutation(8, stream), (std::vector<std::uint32_t>{7, 3, 6, 1, 0, 2, 5, 4}));
}

TEST(RandomStream, SeparatesSeedsUsesAndStreams) {
  const RandomStream base{.seed = 1, .use = RandomUse::kShuffle, .stream = 2};
  std::set<std::uint64_t> values = {base.bits(0), base.bits(1)};
  values.insert(RandomStream{.seed = 2, .use = RandomUse::kShuffle, .stream = 2}.bits(0));
  values.insert(RandomStream{.seed = 1, .use = RandomUse::kAugment, .stream = 2}.bits(0));
  values.insert(RandomStream{.seed = 1, .use = RandomUse::kShuffle, .stream = 3}.bits(0));
  EXPECT_EQ(values.size(), 5U);
}

TEST(RandomStream, HasTheMomentsOfItsDistributions) {
  const RandomStream stream{.seed = 4};
  constexpr int kCount = 20000;
  double unit = 0, unit_squares = 0, normal = 0, normal_squares = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double u = stream.unit(i), n = stream.normal(i);
    ASSERT_TRUE(u >= 0 && u < 1 && std::isfinite(n));
    unit += u;
    unit_squares += u * u;
    normal += n;
    normal_squares += n * n;
  }
  EXPECT_NEAR(unit / kCount, 0.5, 0.01);                // standard error 0.002
  EXPECT_NEAR(unit_squares / kCount, 1.0 / 3.0, 0.01);  // standard error 0.002
  EXPECT_NEAR(normal / kCount, 0.0, 0.03);
  EXPECT_NEAR(normal_squares / kCount, 1.0, 0.05);
  EXPECT_EQ(stream.below(0, 1), 0U);
}

TEST(Permutation, HoldsEveryNumberOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 17U, 1000U}) {
    const auto order = permutation(count, {.seed = 6});
    EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), count);
    for (const std::uint32_t number : order) EXPECT_LT(number, count);
  }
}

TEST(Permutation, IsUniformOverThreeElements) {
  std::map<std::vector<std::uint32_t>, int> counts;
  for (std::uint32_t i = 0; i < 6000; ++i) ++counts[permutation(3, {.seed = 8, .stream = i})];
  EXPECT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace retina
