// WebP in, through libwebp; the pixels of Pillow's `Image.open(f).convert("RGB")`: transparency is
// ignored. The format has no checksums: a flipped bit of a lossy image shows, if at all, as wrong
// pixels. Animations are refused.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"

namespace retina {

// Decodes `bytes` into `out`, whose storage is reused; more than `max_pixels` are refused before
// anything is allocated for them. Throws nothing but std::bad_alloc; `out` is unspecified when !ok.
DecodeStatus decode_webp(std::string_view bytes, std::uint64_t max_pixels, Image& out);

// Only the header, which is in the first bytes: the image's size in `width`, `height`.
DecodeStatus read_webp_size(std::string_view bytes, int& width, int& height);

}  // namespace retina
