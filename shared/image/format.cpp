#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "shared/base/cat.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  const char* format;
};

using namespace std::string_view_literals;

// What collections really hold under .jpg names, failed downloads included.
constexpr std::array kSignatures = {
    Signature{0, "\xFF\xD8\xFF"sv, "JPEG"},
    Signature{0, "\x89PNG"sv, "PNG"},
    Signature{0, "GIF8"sv, "GIF"},
    Signature{8, "WEBP"sv, "WebP"},
    Signature{0, "BM"sv, "BMP"},
    Signature{0, "II*\0"sv, "TIFF"},
    Signature{0, "MM\0*"sv, "TIFF"},
    Signature{4, "ftypavif"sv, "AVIF"},
    Signature{4, "ftyp"sv, "HEIF"},
    Signature{0, "\0\0\0\x0CjP  "sv, "JPEG 2000"},
    Signature{0, "\xFF\x0A"sv, "JPEG XL"},
    Signature{0, "8BPS"sv, "Photoshop"},
    Signature{0, "%PDF"sv, "PDF"},
    Signature{0, "<?xml"sv, "XML"},
    Signature{0, "<svg"sv, "SVG"},
    Signature{0, "<"sv, "HTML"},
    Signature{0, "PK\3\4"sv, "zip"},
    Signature{0, "\x1F\x8B"sv, "gzip"},
};

}  // namespace

std::string image_format(const void* bytes, std::size_t size_bytes) {
  const std::string_view text(static_cast<const char*>(bytes), size_bytes);
  for (const Signature& signature : kSignatures) {
    if (text.size() >= signature.offset &&
        text.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.format;
    }
  }
  return "";
}

std::string describe_other_format(const void* bytes, std::size_t size_bytes) {
  if (size_bytes == 0) return "not a JPEG: the file is empty";
  const std::string format = image_format(bytes, size_bytes);
  if (!format.empty()) return cat("not a JPEG but a ", format, " file");
  std::string start;
  for (std::size_t i = 0; i < size_bytes && i < 4; ++i) {
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), " %02x",
                  unsigned{static_cast<const std::uint8_t*>(bytes)[i]});
    start += hex.data();
  }
  return cat("not a JPEG: starts with", start, ", want ff d8 ff");
}

}  // namespace retina
