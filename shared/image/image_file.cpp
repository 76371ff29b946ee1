#include "shared/image/image_file.h"

#include <algorithm>
#include <array>

namespace retina {
namespace {

// Functions of a format other than JPEG.
struct Codec {
  const char* format;
  DecodeStatus (*read_size)(std::string_view bytes, int& width, int& height);
  DecodeStatus (*decode)(std::string_view bytes, std::uint64_t max_pixels, Image& out);
};
constexpr std::array<Codec, 3> kCodecs = {{{"PNG", read_png_size, decode_png},
                                           {"TIFF", read_tiff_size, decode_tiff},
                                           {"WebP", read_webp_size, decode_webp}}};

// Returns the codec of a format, or null.
const Codec* codec_of(std::string_view format) {
  const auto found = std::find_if(kCodecs.begin(), kCodecs.end(),
                                  [&](const Codec& one) { return one.format == format; });
  return found == kCodecs.end() ? nullptr : &*found;
}

}  // namespace

bool is_image_format(std::string_view format) {
  return format == "JPEG" || codec_of(format) != nullptr;
}

DecodeStatus decode_any_image(std::string_view bytes, JpegDecoder& decoder, Image& out) {
  const std::string format = image_format(bytes);
  if (format == "JPEG") return decoder.decode(bytes, out);
  DecodeStatus status = read_any_size(bytes, decoder, out.width, out.height);
  if (!status.ok) return status;
  if (has_too_many_pixels(out.width, out.height, decoder.max_pixels(), status.problem)) {
    status.ok = false;
    return status;
  }
  return codec_of(format)->decode(bytes, decoder.max_pixels(), out);
}

DecodeStatus read_any_size(std::string_view bytes, JpegDecoder& decoder, int& width, int& height) {
  const std::string format = image_format(bytes);
  if (format == "JPEG") return decoder.read_size(bytes, width, height);
  if (const Codec* const codec = codec_of(format)) return codec->read_size(bytes, width, height);
  return {.ok = false, .problem = describe_other_format(bytes, kImageFormats)};
}

}  // namespace retina
