// Random horizontal flip, keyed by (seed, epoch, image): the same whoever loads the image and
// whenever training was resumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace retina {

// True with `probability` for `draw` in `epoch`: the image's place in the index, and which of its
// copies it is in the upper 32 bits.
bool flip_image(std::uint64_t seed, std::int64_t epoch, std::size_t draw, double probability);

}  // namespace retina
