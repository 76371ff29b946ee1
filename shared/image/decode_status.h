// What a file is by its first bytes, what became of decoding it, and the policy on damage: the same
// for every format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace retina {

// "JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF", ...; "" when unknown. Names lie.
std::string image_format(std::string_view bytes);

// Why a file that is not `wanted` is refused: "not a JPEG but a PNG file".
std::string describe_other_format(std::string_view bytes, const std::string& wanted);

// Pillow's limit, about a quarter GiB of 24-bit pixels.
inline constexpr std::uint64_t kDefaultMaxPixels = 178'956'970;
// libpng's own limit for a side, and ours for a TIFF's; an image of this length would be a line.
inline constexpr std::uint32_t kMaxSidePx = 1'000'000;

// What became of one file. A corrupt image is expected trouble: a value, not an exception.
struct DecodeStatus {
  bool ok = false;              // pixels were produced
  std::string problem{};        // why not, when !ok
  int warning_count = 0;        // the library's complaints about damaged data
  std::string first_warning{};  // the first of them
  bool truncated = false;       // the file ends before its image does: part of it is made up
  bool unsupported = false;     // not damaged: a kind of image that we do not read
  bool is_blank = false;        // it ends right after its headers: there never was a pixel in it
};

// What to do with an image whose end is missing: keep it as every viewer shows it, grey where data
// is missing, with a warning, or refuse it.
enum class TruncatedPolicy { kKeep, kRefuse };

// The policy on damage, shared by coco-pack and the loader. Warnings alone (junk between markers, a
// missing end marker, corrupt entropy data that still fills the image) do not disqualify.
inline bool usable(const DecodeStatus& status, TruncatedPolicy policy = TruncatedPolicy::kKeep) {
  return status.ok && !(status.truncated && policy == TruncatedPolicy::kRefuse);
}

// Why an image is not usable, for quarantine.jsonl; empty when it is.
std::string unusable_reason(const DecodeStatus& status,
                            TruncatedPolicy policy = TruncatedPolicy::kKeep);

// The policy for files that somebody else made. A truncated image is refused: part of it would be
// made up. One without any pixel data was made so (UltraHDR files whose main image was taken
// out); every viewer shows it flat, and so do we.
inline TruncatedPolicy policy_on_foreign_files(const DecodeStatus& status) {
  return status.is_blank ? TruncatedPolicy::kKeep : TruncatedPolicy::kRefuse;
}

// Why samples of `bits` do not become 8 bits by their upper ones, of an image whose largest is
// `largest`; ok where they do. PNG's span the range of their bits by definition (W3C PNG, 12.4), so
// that one whose upper two bits are empty holds 14 bits or fewer that nobody scaled. What TIFF's
// span is not in the file: `largest` is 0.
DecodeStatus check_range(const std::string& format, int bits, unsigned largest);

// Sets `problem` to that of an image with too many pixels and returns true when it has more than
// `max_pixels`.
bool has_too_many_pixels(int width, int height, std::uint64_t max_pixels, std::string& problem);

}  // namespace retina
