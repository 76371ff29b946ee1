#include "shared/image/decode_status.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "shared/base/cat.h"
#include "shared/base/foreign_content.h"

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
    Signature{0, "II+\0"sv, "TIFF"},
    Signature{0, "MM\0+"sv, "TIFF"},
    Signature{4, "ftypavif"sv, "AVIF"},
    Signature{4, "ftyphe"sv, "HEIF"},
    Signature{4, "ftypmif"sv, "HEIF"},
    Signature{4, "ftypmsf"sv, "HEIF"},
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

std::string image_format(std::string_view bytes) {
  for (const Signature& signature : kSignatures) {
    if (bytes.size() >= signature.offset &&
        bytes.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.format;
    }
  }
  return "";
}

std::string describe_other_format(std::string_view bytes, const std::string& wanted) {
  if (bytes.empty()) return cat("not a ", wanted, ": the file is empty");
  const std::string format = image_format(bytes);
  if (!format.empty()) return cat("not a ", wanted, " but a ", format, " file");
  if (const auto foreign = foreign_content(bytes.substr(0, 512))) {
    return cat("not a ", wanted, " but ", foreign->what, ": ", foreign->cure);
  }
  std::string start;
  for (const char byte : bytes.substr(0, 4)) {
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), " %02x", unsigned{static_cast<std::uint8_t>(byte)});
    start += hex.data();
  }
  return cat("not a ", wanted, ": starts with", start, wanted == "JPEG" ? ", want ff d8 ff" : "");
}

std::string unusable_reason(const DecodeStatus& status, TruncatedPolicy policy) {
  if (usable(status, policy)) return "";
  return status.ok ? cat("truncated: ", status.first_warning) : status.problem;
}

bool has_too_many_pixels(int width, int height, std::uint64_t max_pixels, std::string& problem) {
  const std::uint64_t count =
      static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  if (count <= max_pixels) return false;
  problem = cat("image of ", width, "x", height, " pixels (the limit is ", max_pixels, " in all)");
  return true;
}

}  // namespace retina
