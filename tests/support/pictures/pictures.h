// PNG and WebP files for tests, written with the plain libraries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/image/image.h"

namespace retina {

// Colours that differ from pixel to pixel.
Image colourful(int width, int height);

struct PngLook {
  int width = 16, height = 16;
  int bit_depth = 8;    // of a sample: 1, 2, 4, 8, 16
  int colour_type = 2;  // 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGB + alpha
  bool interlaced = false;
  bool transparent = false;  // with a tRNS chunk
};
// `samples` in the file's order, one value each: height * width * channels.
std::string encode_png(const PngLook& look, const std::vector<std::uint16_t>& samples);
// The palette of colour type 3: entry i.
std::vector<std::uint8_t> palette_entry(int i);

std::string encode_png(const Image& image);
std::string encode_webp(const Image& image);  // lossless
std::string encode_lossy_webp(const Image& image, float quality);

}  // namespace retina
