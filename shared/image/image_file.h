// An image of any supported format, recognised by its content. For loose files; shards hold JPEGs
// only. PNG goes through libpng, TIFF through libtiff, WebP through libwebp; their pixels are those
// of Pillow's `Image.open(f).convert("RGB")`: transparency, gamma and colour profiles are ignored,
// grey and palettes become RGB, EXIF orientation is ignored (orientation.h reads it).
//
// PNG   of 16 bits a channel the upper 8 are kept (of 16-bit grey too, which Pillow clips to
//       white), unless check_range() says otherwise; an animation's first image. A checksum that
//       does not fit is an error.
// TIFF  photographs of up to 8 bits a sample: grey, RGB, palette, YCbCr, CMYK; strips or tiles,
//       with any compression that this libtiff supports; the first page of several. Samples that
//       are not colours are refused: their meaning is not in the file.
// WebP  no animations. The format has no checksums: a flipped bit of a lossy image shows, if at
//       all, as wrong pixels.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"
#include "shared/image/image_bytes.h"
#include "shared/image/jpeg.h"

namespace retina {

inline constexpr const char* kImageFormats = "JPEG, PNG, TIFF or WebP";
// Returns true if a format, as image_format() names it, is supported.
bool is_image_format(std::string_view format);

// Decodes `bytes` into `out`, whose storage is reused. The decoder, one per thread, sets the limit
// of pixels for every format: images with more are refused before anything is allocated for them. A
// file that ends before its pixels do is not ok, or truncated. Throws nothing but std::bad_alloc;
// `out` is unspecified when !ok.
DecodeStatus decode_any_image(std::string_view bytes, JpegDecoder& decoder, Image& out);

// Reads only the header: size of the image in `width`, `height`. The first 64 KiB of a file are
// enough for most; if not (a TIFF's directory may be anywhere), the status is not ok.
DecodeStatus read_any_size(std::string_view bytes, JpegDecoder& decoder, int& width, int& height);

// Returns the orientation tag of a TIFF's first page, 1..8; 1, upright, if there is none or it
// makes no sense.
int read_tiff_orientation(const ImageBytes& bytes);

}  // namespace retina
