#include "train/plan/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

namespace retina {
namespace {

// 1,000 images: class 0 in all, class 1 in 10 of them, class 2 in one, which also holds class 1.
ImageIndex long_tail() {
  ImageIndex index;
  for (int i = 0; i < 1000; ++i) {
    std::vector<int> labels{0};
    if (i % 100 == 50) labels.push_back(1);
    if (i == 450) labels.push_back(2);
    index.push_back({.trainable_count = 3, .labels = labels});
  }
  return index;
}

EpochPlanOptions balanced(double threshold) {
  return {.seed = 9, .sampler = Sampler::kClassBalanced, .repeat_threshold = threshold};
}

std::vector<int> counts_of(const std::vector<Draw>& draws, std::size_t images) {
  std::vector<int> counts(images);
  for (const Draw& draw : draws) {
    EXPECT_EQ(draw.copy, static_cast<std::uint32_t>(counts[draw.record]));
    ++counts[draw.record];
  }
  return counts;
}

TEST(Sampler, UniformDrawsEachImageOnceInOrder) {
  const auto draws = draw_images(long_tail(), {}, 4);
  ASSERT_EQ(draws.size(), 1000U);
  for (std::size_t i = 0; i < draws.size(); ++i) EXPECT_EQ(draws[i].record, i);
}

// LVIS, appendix B.2: r(c) = max(1, sqrt(t / f(c))), r(I) = max over the classes of I.
TEST(Sampler, DrawsAnImageByItsRarestClass) {
  const auto index = long_tail();
  const double factor1 = std::sqrt(0.1 / 0.01), factor2 = std::sqrt(0.1 / 0.001);
  double sum1 = 0, sum2 = 0;
  constexpr int kEpochs = 400;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto counts = counts_of(draw_images(index, balanced(0.1), epoch), index.size());
    for (std::size_t i = 0; i < index.size(); ++i) {
      const double factor = i == 450 ? factor2 : i % 100 == 50 ? factor1 : 1;
      EXPECT_GE(counts[i], std::floor(factor));
      EXPECT_LE(counts[i], std::ceil(factor) + 1);
    }
    sum1 += counts[50];
    sum2 += counts[450];
  }
  EXPECT_NEAR(sum1 / kEpochs, factor1, 0.05);
  EXPECT_NEAR(sum2 / kEpochs, factor2, 0.05);
}

TEST(Sampler, EveryPassIsAsLong) {
  const auto index = long_tail();
  for (const double threshold : {1e-9, 0.003, 0.1, 1.0}) {
    const std::size_t length = draws_per_epoch(index, balanced(threshold));
    EXPECT_GE(length, index.size());
    for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
      ASSERT_EQ(draw_images(index, balanced(threshold), epoch).size(), length) << threshold;
    }
  }
  EXPECT_EQ(draws_per_epoch(index, balanced(1e-9)), index.size()) << "no class is that rare";
}

TEST(Sampler, IsAPureFunctionOfSeedAndEpoch) {
  const auto index = long_tail();
  const auto counts = [&](std::uint64_t seed, std::int64_t epoch) {
    EpochPlanOptions options = balanced(0.1);
    options.seed = seed;
    return counts_of(draw_images(index, options, epoch), index.size());
  };
  EXPECT_EQ(counts(1, 3), counts(1, 3));
  EXPECT_NE(counts(1, 3), counts(1, 4));
  EXPECT_NE(counts(1, 3), counts(2, 3));
}

TEST(Sampler, ImagesWithoutBoxesComeOnce) {
  std::vector<IndexEntry> entries(10);
  const std::vector<int> labels{5};
  entries[3].labels = labels;
  const ImageIndex index(entries);
  const auto counts = counts_of(draw_images(index, balanced(1), 0), index.size());
  for (std::size_t i = 0; i < index.size(); ++i) {
    EXPECT_LE(counts[i], i == 3 ? 5 : 2);
  }
  EXPECT_GE(counts[3], 3);
}

}  // namespace
}  // namespace retina
