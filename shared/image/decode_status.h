// The format of a file by its first bytes, the outcome of decoding it, and the policy on damage:
// the same for every format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace retina {

// Returns "JPEG", "PNG", "GIF", "BMP", "WebP", "TIFF", ...; "" if unknown. Goes by content, since
// file names lie.
std::string image_format(std::string_view bytes);

// Returns why a file that is not `wanted` is refused: "not a JPEG but a PNG file".
std::string describe_other_format(std::string_view bytes, const std::string& wanted);

// Default limit of pixels: Pillow's, about a quarter GiB of 24-bit pixels.
inline constexpr std::uint64_t kDefaultMaxPixels = 178'956'970;
// Limit of a side: libpng's own, and ours for a TIFF; an image of this length would be a line.
inline constexpr std::uint32_t kMaxSidePx = 1'000'000;

// Outcome of decoding one file. A corrupt image is expected trouble: a value, not an exception.
struct DecodeStatus {
  bool ok = false;              // pixels were produced
  std::string problem{};        // the reason when !ok
  std::string first_warning{};  // the library's complaint about damaged data; empty: none
  bool truncated = false;       // the file ends before its image does: the rest is filler
  bool unsupported = false;     // not damaged, but a kind of image that is not supported
  bool is_blank = false;        // it ends right after its headers: it never had any pixels
};

// Treatment of an image whose end is missing: keep it as every viewer shows it, grey where data is
// missing, with a warning, or refuse it.
enum class TruncatedPolicy { kKeep, kRefuse };

// Applies the policy on damage, shared by coco-pack and the loader: returns true for usable images.
// Warnings alone (junk between markers, a missing end marker, corrupt entropy data that still fills
// the image) do not disqualify.
inline bool usable(const DecodeStatus& status, TruncatedPolicy policy = TruncatedPolicy::kKeep) {
  return status.ok && !(status.truncated && policy == TruncatedPolicy::kRefuse);
}

// Returns why an image is not usable, for quarantine.jsonl; empty if it is.
std::string unusable_reason(const DecodeStatus& status,
                            TruncatedPolicy policy = TruncatedPolicy::kKeep);

// Returns the policy for files from elsewhere. A truncated image is refused: part of it would be
// filler. One without any pixel data was made so (UltraHDR files whose main image was taken out);
// every viewer shows it flat, and so do we.
inline TruncatedPolicy policy_on_foreign_files(const DecodeStatus& status) {
  return status.is_blank ? TruncatedPolicy::kKeep : TruncatedPolicy::kRefuse;
}

// Refuses samples of `bits` whose upper 8 bits would not be a faithful image; ok if they are. PNG's
// samples span the range of their bits by definition (W3C PNG, 12.4), so an image whose largest
// sample, `largest`, leaves the upper two bits empty holds 14 bits or fewer that were never scaled.
// The range of TIFF's samples is not in the file: `largest` is 0.
DecodeStatus check_range(const std::string& format, int bits, unsigned largest);

// Sets `problem` and returns true if an image has more than `max_pixels`.
bool has_too_many_pixels(int width, int height, std::uint64_t max_pixels, std::string& problem);

}  // namespace retina
