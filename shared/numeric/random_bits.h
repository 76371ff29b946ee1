// The generator behind random.h, for CPUs and GPUs: Philox4x32-10 (Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3"), and how our sequences map to its counters
// (shared/shard/FORMAT.md, "Random numbers").
#pragma once

#include <cstdint>

#include "shared/numeric/host_device.h"

namespace retina {

// Purpose of a sequence; keeps sequences of one seed apart. Not stored anywhere, but changing a
// value changes every run: never renumber.
enum class RandomUse : std::uint32_t {
  kWeights = 1,
  kShuffle = 2,
  kAugment = 3,
  kSynthetic = 4,
  kTest = 5,
  kResample = 6,
  kSampler = 7,
  kDropout = 8,
};

// A counter, or the generator's output for it.
struct PhiloxBlock {
  std::uint32_t r0, r1, r2, r3;
};
struct PhiloxKey {
  std::uint32_t low, high;
};

// Computes the raw block function with the published constants (known answers in the test).
RETINA_HOST_DEVICE PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter.r0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter.r2;
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter.r1 ^ key.low,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter.r3 ^ key.high,
               static_cast<std::uint32_t>(product0)};
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return counter;
}

// One number of the sequence (seed, use, stream).
struct RandomPlace {
  std::uint64_t seed;
  RandomUse use;
  std::uint32_t stream;
  std::uint64_t index;
};

RETINA_HOST_DEVICE PhiloxBlock block_at(const RandomPlace& place) {
  return philox4x32(
      {static_cast<std::uint32_t>(place.index), static_cast<std::uint32_t>(place.index >> 32),
       place.stream, static_cast<std::uint32_t>(place.use)},
      {static_cast<std::uint32_t>(place.seed), static_cast<std::uint32_t>(place.seed >> 32)});
}

RETINA_HOST_DEVICE std::uint64_t low_half(const PhiloxBlock& block) {
  return block.r0 | (std::uint64_t{block.r1} << 32);
}
RETINA_HOST_DEVICE std::uint64_t high_half(const PhiloxBlock& block) {
  return block.r2 | (std::uint64_t{block.r3} << 32);
}

// Returns the 64 bits of a place.
RETINA_HOST_DEVICE std::uint64_t random_bits(const RandomPlace& place) {
  return low_half(block_at(place));
}

}  // namespace retina
