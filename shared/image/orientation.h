// The rotation of an image by its camera: EXIF's orientation (CIPA DC-008, tag 0x0112), which is
// TIFF's own. COCO's annotations and our decoder ignore it; tools that turn images upright before
// they are annotated do not.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/image/image.h"
#include "shared/image/image_bytes.h"

namespace retina {

// Returns 1..8 from a JPEG's first EXIF segment, a PNG's or WebP's EXIF chunk or a TIFF's first
// page; 1, upright, if there is none or it makes no sense, and for other formats.
int exif_orientation(ImageBytes file);
inline int exif_orientation(std::string_view file) {
  return exif_orientation(ImageBytes(file));
}

// Returns true if width and height are exchanged in the upright image.
constexpr bool is_turned_sideways(int orientation) {
  return orientation >= 5;
}

// Returns the upright image, as Pillow's ImageOps.exif_transpose.
Image upright(const Image& stored, int orientation);

}  // namespace retina
