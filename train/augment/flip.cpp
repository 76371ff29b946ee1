#include "train/augment/flip.h"

#include "shared/base/random.h"

namespace retina {

bool flip_image(std::uint64_t seed, std::int64_t epoch, std::size_t draw, double probability) {
  const RandomStream stream{
      .seed = seed, .use = RandomUse::kAugment, .stream = static_cast<std::uint32_t>(epoch)};
  return stream.unit(draw) < probability;
}

}  // namespace retina
