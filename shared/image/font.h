// The built-in bitmap font of draw.cpp: 5 x 9 cells (two below the
// baseline), printable ASCII, no font file needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace retina {

inline constexpr int kGlyphWidth = 5, kGlyphHeight = 9;

using Glyph = std::array<std::uint8_t, kGlyphHeight>;

// The cells of a character; those of '?' for what is not printable ASCII.
const Glyph& glyph_of(char character);

}  // namespace retina
