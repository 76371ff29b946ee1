// Formats told by a file's first bytes: names lie.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// "JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF", ...; "" when unknown.
std::string image_format(std::string_view bytes);

// Why a file that is not `wanted` is refused: "not a JPEG but a PNG file".
std::string describe_other_format(std::string_view bytes, const std::string& wanted);

}  // namespace retina
