// PNG in, through libpng. Pixels are those of Pillow's `Image.open(f).convert("RGB")`: transparency
// is ignored, palettes and grey become RGB, gamma and colour profiles are ignored; of 16 bits a
// channel the upper 8 stay (of 16-bit grey too, which Pillow clips to white). An animation's first
// image.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"

namespace retina {

// Decodes `bytes` into `out`, whose storage is reused; more than `max_pixels` are refused before
// anything is allocated for them. A checksum that does not fit is an error, so is a missing end of
// the pixels. Throws nothing but std::bad_alloc; `out` is unspecified when !ok.
DecodeStatus decode_png(std::string_view bytes, std::uint64_t max_pixels, Image& out);

// Only the header, which is in the first 24 bytes: the image's size in `width`, `height`.
DecodeStatus read_png_size(std::string_view bytes, int& width, int& height);

}  // namespace retina
