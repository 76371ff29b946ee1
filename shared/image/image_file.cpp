#include "shared/image/image_file.h"

#include "shared/image/format.h"
#include "shared/image/png.h"
#include "shared/image/tiff.h"
#include "shared/image/webp.h"

namespace retina {
namespace {

DecodeStatus other_format(std::string_view bytes) {
  return {.ok = false, .problem = describe_other_format(bytes, kImageFormats)};
}

}  // namespace

bool is_image_format(std::string_view format) {
  return format == "JPEG" || format == "PNG" || format == "TIFF" || format == "WebP";
}

DecodeStatus decode_any_image(std::string_view bytes, JpegDecoder& decoder, Image& out) {
  const std::string format = image_format(bytes);
  if (format == "JPEG") return decoder.decode(bytes.data(), bytes.size(), out);
  if (format == "PNG") return decode_png(bytes, decoder.max_pixels(), out);
  if (format == "TIFF") return decode_tiff(bytes, decoder.max_pixels(), out);
  if (format == "WebP") return decode_webp(bytes, decoder.max_pixels(), out);
  return other_format(bytes);
}

DecodeStatus read_any_size(std::string_view bytes, JpegDecoder& decoder, int& width, int& height) {
  const std::string format = image_format(bytes);
  if (format == "JPEG") return decoder.read_size(bytes.data(), bytes.size(), width, height);
  if (format == "PNG") return read_png_size(bytes, width, height);
  if (format == "TIFF") return read_tiff_size(bytes, width, height);
  if (format == "WebP") return read_webp_size(bytes, width, height);
  return other_format(bytes);
}

}  // namespace retina
