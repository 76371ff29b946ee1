// Random damage to byte strings, for fuzzing: a pure function of its random numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/numeric/random.h"

namespace retina {

// A sequence of random numbers that is used up one by one.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint32_t stream)
      : random_{.seed = seed, .use = RandomUse::kTest, .stream = stream} {}
  // Uniform in [0, bound), bound >= 1.
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(random_.below(next_++, bound));
  }

 private:
  RandomStream random_;
  std::uint64_t next_ = 0;
};

// Damages `bytes` in 1 to 8 places: flipped bits, changed bytes, lengths that lie, pieces dropped,
// repeated, taken from `others`, and pieces of `dictionary` put in.
void mutate(std::string& bytes, Dice& dice, const std::vector<std::string>& others,
            const std::vector<std::string>& dictionary);

}  // namespace retina
