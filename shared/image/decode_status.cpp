#include "shared/image/decode_status.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "shared/base/cat.h"
#include "shared/base/foreign_content.h"

namespace retina {
namespace {

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  const char* format;
  const char* fix = "";
};

using namespace std::string_view_literals;

constexpr const char* kDicomFix = ": dcmj2pnm (DCMTK) makes a PNG of it";

// Signatures of files that collections hold under .jpg names, failed downloads included.
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
    Signature{4, "ftypavif"sv, "AVIF", ": avifdec makes a PNG of it"},
    Signature{4, "ftyphe"sv, "HEIF", ": heif-convert makes a JPEG of it"},
    Signature{4, "ftypmif"sv, "HEIF", ": heif-convert makes a JPEG of it"},
    Signature{4, "ftypmsf"sv, "HEIF", ": heif-convert makes a JPEG of it"},
    Signature{0, "\0\0\0\x0CjP  "sv, "JPEG 2000", ": opj_decompress makes a PNG of it"},
    Signature{0, "\xFF\x4F\xFF\x51"sv, "JPEG 2000", ": opj_decompress makes a PNG of it"},
    Signature{0, "\0\0\0\x0CJXL "sv, "JPEG XL", ": djxl makes a PNG of it"},
    Signature{0, "\xFF\x0A"sv, "JPEG XL", ": djxl makes a PNG of it"},
    Signature{128, "DICM"sv, "DICOM", kDicomFix},
    Signature{0, "\2\0\0\0UL"sv, "DICOM", kDicomFix},  // a file without the 128 bytes in front
    Signature{0, "\x08\0\5\0"sv, "DICOM", kDicomFix},
    Signature{0, "\x08\0\0\0"sv, "DICOM", kDicomFix},
    Signature{0, "8BPS"sv, "Photoshop"},
    Signature{0, "%PDF"sv, "PDF"},
    Signature{0, "<?xml"sv, "XML"},
    Signature{0, "<svg"sv, "SVG"},
    Signature{0, "<"sv, "HTML"},
    Signature{0, "PK\3\4"sv, "zip"},
    Signature{0, "\x1F\x8B"sv, "gzip"},
};

const Signature& signature_of(std::string_view bytes) {
  static constexpr Signature kUnknown{0, "", ""};
  for (const Signature& signature : kSignatures) {
    if (bytes.size() >= signature.offset &&
        bytes.substr(signature.offset).starts_with(signature.bytes)) {
      return signature;
    }
  }
  return kUnknown;
}

}  // namespace

std::string image_format(std::string_view bytes) {
  return signature_of(bytes).format;
}

std::string describe_other_format(std::string_view bytes, const std::string& wanted) {
  if (bytes.empty()) return cat("not a ", wanted, ": the file is empty");
  const Signature& found = signature_of(bytes);
  if (*found.format != '\0') {
    return cat("not a ", wanted, " but a ", found.format, " file", found.fix);
  }
  if (const auto foreign = foreign_content(bytes.substr(0, 512))) {
    return cat("not a ", wanted, " but ", foreign->what, ": ", foreign->hint);
  }
  return cat("not a ", wanted, " nor a file of another known format");
}

std::string unusable_reason(const DecodeStatus& status, TruncatedPolicy policy) {
  if (usable(status, policy)) return "";
  return status.ok ? cat("truncated: ", status.first_warning) : status.problem;
}

DecodeStatus check_range(const std::string& format, int bits, unsigned largest) {
  if (bits <= 8 || std::uint64_t{largest} >> std::min(bits - 2, 63) > 0) return {.ok = true};
  const std::string found = largest > 0 ? cat("the largest is ", largest, "; ") : "";
  return {.ok = false,
          .problem = cat("a ", format, " of ", bits, "-bit samples, whose range is not known (",
                         found, "want 8 bits)"),
          .unsupported = true};
}

bool has_too_many_pixels(int width, int height, std::uint64_t max_pixels, std::string& problem) {
  const std::uint64_t count =
      static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  if (count <= max_pixels) return false;
  problem = cat("image of ", width, "x", height, " pixels (the limit is ", max_pixels, " in all)");
  return true;
}

}  // namespace retina
