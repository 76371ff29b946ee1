#include "train/reduce/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shared/comm/element_loops.h"
#include "shared/numeric/bfloat16.h"
#include "shared/numeric/float16.h"
#include "shared/numeric/random.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

constexpr ElementType kTypes[] = {ElementType::kFloat16, ElementType::kBFloat16};
constexpr std::size_t kCount = 1003;  // no multiple of a vector

std::vector<float> gradients(int rank) {
  const RandomStream stream{20261121, RandomUse::kTest, static_cast<std::uint32_t>(rank)};
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<float>(stream.unit(i) - 0.5) * 1e-2F;
  }
  return values;
}

// What every rank has after WireSum::sum of `values(rank)`, cut into calls of `cut` elements.
template <class Values>
std::vector<std::vector<float>> sums(int ranks, const WireOptions& options, const Values& values,
                                     std::size_t cut = kCount) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
  ThreadWorld world({.ring = {.ranks = ranks}});
  const auto outcomes = world.run([&](ThreadRank& rank) {
    WireSum wire(rank, options);
    std::vector<float> mine = values(rank.rank());
    for (std::size_t start = 0; start < mine.size(); start += cut) {
      wire.sum(mine.data() + start, std::min(cut, mine.size() - start), "bucket 0");
    }
    results[static_cast<std::size_t>(rank.rank())] = mine;
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  return results;
}

float store_and_load(ElementType type, float value) {
  return type == ElementType::kFloat16 ? float_from_float16(float16_from_float(value))
                                       : float_from_bfloat16(bfloat16_from_float(value));
}

TEST(Float16Loops, DoWhatFloat16SaysForEveryElement) {
  for (const ElementType type : kTypes) {
    std::vector<float> values = gradients(0);
    values[5] = std::numeric_limits<float>::infinity();
    values[6] = 1e30F;
    values[7] = std::nanf("");
    values[8] = 1e-7F;  // a subnormal half
    std::vector<std::uint16_t> bits(kCount), both(kCount);
    narrow(values.data(), kCount, type, 4, bits.data());
    narrow(values.data(), kCount, type, 1, both.data());
    const std::vector<std::uint16_t> before = both;
    add(bits.data(), both.data(), kCount, type);
    std::vector<float> wide(kCount);
    widen(bits.data(), kCount, type, 0.25F, wide.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      if (i == 7) {
        EXPECT_TRUE(std::isnan(wide[i]));
        continue;
      }
      ASSERT_EQ(wide[i], store_and_load(type, values[i] * 4) / 4) << i;
      float one = 0, other = 0, sum = 0;
      widen(&bits[i], 1, type, 1, &one);
      widen(&before[i], 1, type, 1, &other);
      widen(&both[i], 1, type, 1, &sum);
      ASSERT_EQ(sum, store_and_load(type, one + other)) << i;
      ASSERT_EQ(is_finite(bits[i], type), std::isfinite(one)) << i;
    }
    EXPECT_FALSE(all_finite(bits.data(), kCount, type));
    EXPECT_TRUE(all_finite(bits.data() + 8, kCount - 8, type));
  }
}

TEST(WireSum, IsTheSumWithinTheTypesPrecisionOnEveryRank) {
  for (const int ranks : {1, 2, 4}) {
    const auto exact = sums(ranks, {}, gradients);
    for (const ElementType type : kTypes) {
      // Half's 11 bits, bfloat16's 8; the ranks' values are rounded, then the sum.
      const float step = type == ElementType::kFloat16 ? 0x1p-11F : 0x1p-8F;
      const auto found = sums(ranks, {.type = type}, gradients);
      for (std::size_t i = 0; i < kCount; ++i) {
        const float largest = 0.5e-2F * static_cast<float>(ranks);
        ASSERT_NEAR(found[0][i], exact[0][i], largest * step * 2.01F) << element_name(type);
        for (const auto& other : found) ASSERT_EQ(other[i], found[0][i]);
      }
    }
  }
}

TEST(WireSum, KeepsSmallGradientsInFloat16) {
  const auto tiny = [](int) { return std::vector<float>(3, 2e-9F); };
  const auto found = sums(2, {.type = ElementType::kFloat16}, tiny);
  EXPECT_NEAR(found[0][0], 4e-9F, 0.1e-9F) << "below what a half can hold";
}

TEST(WireSum, TakesWhatTheWireCannotHoldFromASecondSumInFloat32) {
  const auto large = [](int rank) {
    std::vector<float> values = gradients(rank);
    values[3] = 1000;                      // too large on the wire by itself
    values[4] = rank == 0 ? 40 : 50;       // the sum is
    values[5] = rank == 0 ? 1e9F : -1e9F;  // infinity - infinity
    return values;
  };
  for (const bool ordered : {false, true}) {
    const auto plain = sums(2, {.type = ElementType::kFloat16, .ordered = ordered}, gradients);
    const auto found = sums(2, {.type = ElementType::kFloat16, .ordered = ordered}, large);
    for (const auto& mine : found) {
      EXPECT_EQ(mine[3], 2000);
      EXPECT_EQ(mine[4], 90);
      EXPECT_EQ(mine[5], 0);
      for (std::size_t i = 6; i < kCount; ++i) ASSERT_EQ(mine[i], plain[0][i]) << "the others stay";
    }
  }
}

TEST(WireSum, LetsInfinityAndNansThrough) {
  const auto broken = [](int rank) {
    std::vector<float> values = gradients(rank);
    if (rank == 1) values[0] = std::numeric_limits<float>::infinity();
    if (rank == 1) values[1] = std::nanf("");
    return values;
  };
  for (const ElementType type : kTypes) {
    for (const auto& mine : sums(3, {.type = type}, broken)) {
      EXPECT_TRUE(std::isinf(mine[0]));
      EXPECT_TRUE(std::isnan(mine[1]));
      EXPECT_TRUE(std::isfinite(mine[2]));
    }
  }
}

TEST(WireSum, CountsWhatItRepeated) {
  std::vector<std::int64_t> first(2), second(2);
  ThreadWorld world({.ring = {.ranks = 2}});
  world.run([&](ThreadRank& rank) {
    const auto me = static_cast<std::size_t>(rank.rank());
    WireSum wire(rank, {.type = ElementType::kFloat16});
    std::vector<float> values = {1, 2};
    wire.sum(values.data(), 2, "bucket 0");
    first[me] = wire.repeated_count();
    values[0] = 1e6F;
    wire.sum(values.data(), 2, "bucket 1");
    values[0] = std::numeric_limits<float>::infinity();  // in f32, too
    wire.sum(values.data(), 2, "bucket 2");
    second[me] = wire.repeated_count();
  });
  EXPECT_EQ(first, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(second, (std::vector<std::int64_t>{1, 1}));
}

TEST(WireSum, InOrderDoesNotDependOnTheCut) {
  const auto large = [](int rank) {
    std::vector<float> values = gradients(rank);
    values[77] = 1e5F;
    return values;
  };
  for (const ElementType type :
       {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    const WireOptions options{.type = type, .ordered = true};
    const auto whole = sums(4, options, large);
    for (const std::size_t cut : {1U, 10U, 78U, 500U}) {
      ASSERT_EQ(sums(4, options, large, cut), whole) << element_name(type) << " " << cut;
    }
  }
}

}  // namespace
}  // namespace retina
