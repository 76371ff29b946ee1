// TIFF in, through libtiff: photographs of up to 8 bits a sample (grey, RGB, palette, YCbCr, CMYK;
// strips or tiles, whatever the compression that this libtiff has). Alpha is dropped and the
// colours beneath it stay, as in Pillow's `Image.open(f).convert("RGB")`; the orientation tag is
// ignored (orientation.h has it). The first page of several. Samples that are no colours are
// refused: what they mean is not in the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"

namespace retina {

// Decodes `bytes` into `out`, whose storage is reused; more than `max_pixels` are refused before
// anything is allocated for them, and so is a file that is shorter than its plain pixels. Missing
// or damaged strips and tiles are an error. Throws nothing but std::bad_alloc; `out` is unspecified
// when !ok.
DecodeStatus decode_tiff(std::string_view bytes, std::uint64_t max_pixels, Image& out);

// Only the first directory, which may be anywhere in the file: the image's size in `width`,
// `height`.
DecodeStatus read_tiff_size(std::string_view bytes, int& width, int& height);

// The first page's orientation tag, 1..8; 1, upright, where there is none or it makes no sense.
int read_tiff_orientation(std::string_view bytes);

}  // namespace retina
