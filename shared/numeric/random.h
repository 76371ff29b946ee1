// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
// easy as 1, 2, 3"). A number is a pure function of (seed, stream, counter): no state to save, the
// same on every machine, thread count and rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/numeric/random_bits.h"

namespace retina {

// A sequence of random numbers, addressed by index.
struct RandomStream {
  std::uint64_t seed = 0;
  RandomUse use = RandomUse::kTest;
  std::uint32_t stream = 0;  // e.g. the epoch or the parameter's number

  // Returns the 64 random bits of place `index`.
  std::uint64_t bits(std::uint64_t index) const;
  // Returns a number uniform in [0, 1), 53 bits.
  double unit(std::uint64_t index) const;
  // Returns a standard normal number (Box-Muller on the two halves of place `index`).
  double normal(std::uint64_t index) const;
  // Returns a number uniform in [0, bound), bound >= 1; bias below 2^-64 * bound.
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;
};

// Returns a uniform permutation of 0..count-1 (Fisher-Yates, swap i uses place i of the stream).
std::vector<std::uint32_t> permutation(std::size_t count, const RandomStream& stream);

}  // namespace retina
