// Counts what the program's operator new has given out. Linking memory_meter.cpp replaces the
// global operators.
#pragma once

#include <cstddef>

namespace retina {

// Bytes in use now.
std::size_t live_bytes();
// The most in use since the last reset, which sets it to the present.
std::size_t peak_bytes();
void reset_peak();

}  // namespace retina
