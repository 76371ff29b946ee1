// Random draws one after another from a counter-based stream: what an image holds is a pure
// function of (seed, image number).
#pragma once

#include <cstdint>

#include "shared/numeric/random.h"

namespace retina::scenes {

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint32_t image)
      : stream_{.seed = seed, .use = RandomUse::kSynthetic, .stream = image} {}

  // Uniform in [low, high).
  double between(double low, double high) { return low + (high - low) * stream_.unit(next_++); }
  // Uniform in low..high, both included.
  int whole(int low, int high) {
    const auto span = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<int>(stream_.below(next_++, span));
  }
  bool chance(double probability) { return stream_.unit(next_++) < probability; }
  std::uint64_t bits() { return stream_.bits(next_++); }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

}  // namespace retina::scenes
