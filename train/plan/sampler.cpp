#include "train/plan/sampler.h"

#include <algorithm>
#include <cmath>

#include "shared/numeric/random.h"

namespace retina {
namespace {

// Repeat factors are fixed-point numbers, so their sums are exact in any order.
constexpr int kFractionBits = 24;
constexpr std::uint64_t kOne = std::uint64_t{1} << kFractionBits;

std::vector<std::uint64_t> repeat_factors(const ImageIndex& index, double threshold) {
  std::vector<std::size_t> images_of_class;
  for (const IndexEntry& image : index) {
    for (const int label : image.labels) {
      const auto place = static_cast<std::size_t>(label);
      if (place >= images_of_class.size()) images_of_class.resize(place + 1);
      ++images_of_class[place];
    }
  }
  std::vector<std::uint64_t> factor_of_class;
  for (const std::size_t images : images_of_class) {
    const double share = static_cast<double>(images) / static_cast<double>(index.size());
    const double factor = images == 0 ? 1 : std::max(1.0, std::sqrt(threshold / share));
    factor_of_class.push_back(static_cast<std::uint64_t>(std::llround(factor * kOne)));
  }
  std::vector<std::uint64_t> factors(index.size(), kOne);
  for (std::size_t i = 0; i < index.size(); ++i) {
    for (const int label : index[i].labels) {
      factors[i] = std::max(factors[i], factor_of_class[static_cast<std::size_t>(label)]);
    }
  }
  return factors;
}

std::size_t rounded_up_sum(const std::vector<std::uint64_t>& factors) {
  std::uint64_t sum = 0;
  for (const std::uint64_t factor : factors) sum += factor;
  return static_cast<std::size_t>((sum + kOne - 1) >> kFractionBits);
}

// Returns how often each image occurs.
std::vector<std::uint32_t> draw_counts(const std::vector<std::uint64_t>& factors,
                                       const RandomStream& random) {
  std::vector<std::uint32_t> counts;
  std::uint64_t at = random.bits(0) >> (64 - kFractionBits);
  std::size_t drawn = 0;
  for (const std::uint64_t factor : factors) {
    const std::uint64_t next = at + factor;
    counts.push_back(static_cast<std::uint32_t>((next >> kFractionBits) - (at >> kFractionBits)));
    drawn += counts.back();
    at = next;
  }
  if (drawn < rounded_up_sum(factors)) ++counts[random.below(1, counts.size())];
  return counts;
}

}  // namespace

std::vector<Draw> draw_images(const ImageIndex& index, const EpochPlanOptions& options,
                              std::int64_t epoch) {
  std::vector<std::uint32_t> counts(index.size(), 1);
  if (options.sampler == Sampler::kClassBalanced) {
    counts = draw_counts(repeat_factors(index, options.repeat_threshold),
                         {.seed = options.seed,
                          .use = RandomUse::kSampler,
                          .stream = static_cast<std::uint32_t>(epoch)});
  }
  std::vector<Draw> draws;
  draws.reserve(index.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (std::uint32_t copy = 0; copy < counts[i]; ++copy) {
      draws.push_back({.record = static_cast<std::uint32_t>(i), .copy = copy});
    }
  }
  return draws;
}

std::size_t draws_per_epoch(const ImageIndex& index, const EpochPlanOptions& options) {
  return options.sampler == Sampler::kUniform
             ? index.size()
             : rounded_up_sum(repeat_factors(index, options.repeat_threshold));
}

}  // namespace retina
