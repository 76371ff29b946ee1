// Random horizontal flip, keyed by (seed, epoch, image): the same whoever loads the image and
// whenever training was resumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace retina {

// True with `probability` for place `record` of the image index in `epoch`.
bool flip_image(std::uint64_t seed, std::int64_t epoch, std::size_t record, double probability);

}  // namespace retina
