// JPEG in and out through libjpeg-turbo's scanline interface. Pixels equal Pillow's
// `Image.open(f).convert("RGB")` bit for bit: slow integer DCT, fancy upsampling, CMYK and YCCK
// converted, EXIF orientation ignored as COCO's annotations do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shared/image/image.h"

namespace retina {

// Pillow's limit, about a quarter GiB of 24-bit pixels.
inline constexpr std::uint64_t kDefaultMaxPixels = 178'956'970;

// What became of one file. A corrupt image is expected trouble: a value, not an exception.
struct DecodeStatus {
  bool ok = false;              // pixels were produced
  std::string problem{};        // why not, when !ok
  int warning_count = 0;        // libjpeg's complaints about damaged data
  std::string first_warning{};  // the first of them
  bool truncated = false;       // the file ends before its picture does: part of it is made up
  bool is_blank = false;        // it ends right after its headers: there never was a pixel in it
};

// What to do with a picture whose end is missing: keep it as every viewer shows it, grey where data
// is missing, with a warning, or refuse it.
enum class TruncatedPolicy { kKeep, kRefuse };

// The policy on damage, shared by coco-pack and the loader. Warnings alone (junk between markers, a
// missing end marker, corrupt entropy data that still fills the picture) do not disqualify.
inline bool usable(const DecodeStatus& status, TruncatedPolicy policy = TruncatedPolicy::kKeep) {
  return status.ok && !(status.truncated && policy == TruncatedPolicy::kRefuse);
}

// Why a picture is not usable, for quarantine.jsonl; empty when it is.
std::string unusable_reason(const DecodeStatus& status,
                            TruncatedPolicy policy = TruncatedPolicy::kKeep);

// One per thread, reusable: keeps libjpeg's state and row buffers between images.
class JpegDecoder {
 public:
  // Pictures of more pixels are refused after the header, before anything is allocated for them.
  explicit JpegDecoder(std::uint64_t max_pixels = kDefaultMaxPixels);
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  // Decodes the first picture of `bytes` into `out`, whose storage is reused. Other formats are
  // recognised and refused. Throws nothing but std::bad_alloc; `out` is unspecified when !ok.
  DecodeStatus decode(const void* bytes, std::size_t size_bytes, Image& out);

  // Only the header: size of the picture in `width`, `height`.
  DecodeStatus read_size(const void* bytes, std::size_t size_bytes, int& width, int& height);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "PNG", "GIF", "BMP", "WebP", "TIFF", ... by the first bytes; "JPEG" for a JPEG, "" when unknown.
std::string image_format(const void* bytes, std::size_t size_bytes);

// Why bytes that are not a JPEG are refused: "not a JPEG but a PNG file".
std::string describe_other_format(const void* bytes, std::size_t size_bytes);

// Baseline JPEG, 4:2:0, `quality` 1..100.
std::string encode_jpeg(const Image& image, int quality);

}  // namespace retina
