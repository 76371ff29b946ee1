// An image of any of the formats that we read, told by its content. For loose files; shards hold
// JPEGs only.
#pragma once

#include <string_view>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"

namespace retina {

inline constexpr const char* kImageFormats = "JPEG, PNG, TIFF or WebP";
// Whether a format, as image_format() names it, is one of them.
bool is_image_format(std::string_view format);

// Decodes `bytes` into `out`, whose storage is reused. The decoder, one per thread, sets the limit
// of pixels for every format. Throws nothing but std::bad_alloc; `out` is unspecified when !ok.
DecodeStatus decode_any_image(std::string_view bytes, JpegDecoder& decoder, Image& out);

// Only the header: size of the image in `width`, `height`. The first 64 KiB of a file are enough
// for most; where they are not, the status is not ok.
DecodeStatus read_any_size(std::string_view bytes, JpegDecoder& decoder, int& width, int& height);

}  // namespace retina
