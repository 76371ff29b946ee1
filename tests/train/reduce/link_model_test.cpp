#include "train/reduce/link_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/ranks/thread_world.h"
#include "train/reduce/link_probe.h"

namespace retina {
namespace {

constexpr double kMiB = 1024 * 1024;

std::vector<double> sizes() {
  std::vector<double> list;
  for (double bytes = 8; bytes <= 64 * kMiB; bytes *= 8) list.push_back(bytes);
  return list;
}

TEST(LinkModel, FitFindsTheLinkOfExactTimes) {
  for (const int ranks : {2, 3, 4, 8, 1024}) {
    const LinkCost link{.latency_seconds = 30e-6, .bytes_per_second = 50e6};
    std::vector<AllReduceSample> samples;
    for (const double bytes : sizes()) {
      samples.push_back({bytes, all_reduce_seconds(ranks, link, bytes)});
    }
    const RingFit fit = fit_ring(samples, ranks);
    EXPECT_EQ(fit.ranks, ranks);
    EXPECT_NEAR(fit.link.latency_seconds, 30e-6, 1e-12) << ranks;
    EXPECT_NEAR(fit.link.bytes_per_second, 50e6, 1) << ranks;
    EXPECT_LT(fit.worst_relative_error, 1e-9);
    EXPECT_TRUE(fit.left_out_bytes.empty());
  }
}

// 7 repeats of which 3 are up to 20 times slower, the others within 5 %.
TEST(LinkModel, FitStandsNoiseAndOutliers) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomStream random{seed, RandomUse::kTest, 0};
    std::uint64_t next = 0;
    const LinkCost link{.latency_seconds = 1e-6 * std::pow(10, 3 * random.unit(next++)),
                        .bytes_per_second = 1e7 * std::pow(10, 3 * random.unit(next++))};
    const int ranks = 2 + static_cast<int>(random.below(next++, 30));
    std::vector<AllReduceSample> samples;
    for (const double bytes : sizes()) {
      const double exact = all_reduce_seconds(ranks, link, bytes);
      for (int repeat = 0; repeat < 7; ++repeat) {
        const double noise = 1 + 0.05 * (2 * random.unit(next++) - 1);
        const double outlier = repeat < 3 ? 1 + 19 * random.unit(next++) : 1;
        samples.push_back({bytes, exact * noise * outlier});
      }
    }
    const RingFit fit = fit_ring(samples, ranks);
    EXPECT_NEAR(fit.link.latency_seconds / link.latency_seconds, 1, 0.12) << "seed " << seed;
    EXPECT_NEAR(fit.link.bytes_per_second / link.bytes_per_second, 1, 0.12) << "seed " << seed;
    EXPECT_LT(fit.worst_relative_error, 0.15) << "seed " << seed;
  }
}

// A link that lets the first bytes pass for free, and one size with an algorithm of its own.
TEST(LinkModel, FitLeavesOutSizesThatFollowAnotherLaw) {
  const LinkCost link{.latency_seconds = 100e-6, .bytes_per_second = 50e6};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomStream random{seed, RandomUse::kTest, 1};
    std::uint64_t next = 0;
    std::vector<AllReduceSample> samples;
    for (double bytes = 32768; bytes <= 32 * kMiB; bytes *= 2) {
      double factor = 1 + 0.03 * (2 * random.unit(next++) - 1);
      if (bytes <= 65536) factor /= 20;
      if (bytes == kMiB) factor *= 8;
      samples.push_back({bytes, factor * all_reduce_seconds(4, link, bytes)});
    }
    const RingFit fit = fit_ring(samples, 4);
    EXPECT_EQ(fit.left_out_bytes, (std::vector<double>{32768, 65536, kMiB})) << "seed " << seed;
    EXPECT_NEAR(fit.link.bytes_per_second / 50e6, 1, 0.05) << "seed " << seed;
    EXPECT_LT(fit.worst_relative_error, 0.07) << "seed " << seed;
  }
}

// Small buffers on two ranks and large ones on eight tell both costs, though neither does alone.
TEST(LinkModel, FitOverSeveralNumbersOfRanksFindsOneLink) {
  const LinkCost link{.latency_seconds = 100e-6, .bytes_per_second = 50e6};
  std::vector<RingSamples> rings;
  for (const int ranks : {2, 3, 8}) {
    rings.push_back({.ranks = ranks});
    for (const double bytes : sizes()) {
      const double exact = all_reduce_seconds(ranks, link, bytes);
      rings.back().samples.push_back({bytes, exact});
    }
  }
  rings[1].samples[4].seconds *= 5;
  const LinkFit fit = fit_links(rings);
  EXPECT_NEAR(fit.link.latency_seconds, 100e-6, 1e-11);
  EXPECT_NEAR(fit.link.bytes_per_second, 50e6, 1);
  ASSERT_EQ(fit.left_out.size(), 1U);
  EXPECT_EQ(fit.left_out[0].ranks, 3);
  EXPECT_EQ(fit.left_out[0].bytes, sizes()[4]);
  EXPECT_LT(fit.worst_relative_error, 1e-9);
}

TEST(LinkModel, FitNeverGivesNegativeCosts) {
  // Times that grow faster than the bytes, and times that fall.
  const RingFit convex = fit_ring({{1000, 1}, {2000, 3}, {4000, 9}}, 2);
  EXPECT_EQ(convex.link.latency_seconds, 0);
  EXPECT_GT(convex.link.bytes_per_second, 0);
  const RingFit falling = fit_ring({{1000, 3}, {2000, 2}, {4000, 1}}, 2);
  EXPECT_GT(falling.link.latency_seconds, 0);
  EXPECT_EQ(falling.link.bytes_per_second, std::numeric_limits<double>::infinity());
  EXPECT_GT(falling.all_reduce_seconds(1e9), 0);
}

TEST(LinkModel, FitRefusesWhatItCannotFit) {
  EXPECT_THROW(fit_ring({{8, 1}, {8, 2}}, 2), Error);
  EXPECT_THROW(fit_ring({{8, 1}, {16, 2}}, 1), Error);
  EXPECT_THROW(fit_ring({{8, 0}, {16, 2}}, 2), Error);
  EXPECT_THROW(fit_ring({{0, 1}, {16, 2}}, 2), Error);
}

// Measured in virtual time, so exactly: what the world was made of comes out.
TEST(LinkModel, ProbeAndFitFindTheLinkOfAThreadWorld) {
  const LinkCost link{.latency_seconds = 50e-6, .bytes_per_second = 50e6};
  for (const bool ordered : {false, true}) {
    ThreadWorld world({.ring = {.ranks = 3, .intra_node = link}});
    const auto outcomes = world.run([&](ThreadRank& comm) {
      comm.advance(comm.rank());  // ranks that come late must not count as a slow link
      const auto samples = measure_all_reduce(
          comm, {.sizes_bytes = {8, 4096, 1 << 18}, .repeats = 3, .ordered = ordered});
      ASSERT_EQ(samples.size(), 9U);
      EXPECT_EQ(samples[8].bytes, 1 << 18);
      const RingFit fit = fit_ring(samples, comm.size());
      EXPECT_NEAR(fit.link.latency_seconds, 50e-6, 1e-9);
      EXPECT_NEAR(fit.link.bytes_per_second, 50e6, 1e3);
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  }
}

}  // namespace
}  // namespace retina
