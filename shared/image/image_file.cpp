#include "shared/image/image_file.h"

#include "shared/image/format_rows.h"

namespace retina {

bool is_image_format(std::string_view format) {
  return format == "JPEG" || format == "PNG" || format == "TIFF" || format == "WebP";
}

OpenRows open_rows(const std::string& format, ImageBytes& bytes, const OpenOptions& options) {
  if (format == "JPEG") return open_jpeg_rows(bytes, options.jpeg_shrink);
  if (format == "PNG") return open_png_rows(bytes, options.is_deep);
  if (format == "TIFF") return open_tiff_rows(bytes, options.is_deep);
  return open_webp_rows(bytes);
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
  ImageBytes content(bytes);
  const OpenRows opened = open_rows(format, content);
  if (!opened.status.ok) return opened.status;
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(out.width);
  out.rgb.resize(row_bytes * static_cast<std::size_t>(out.height));
  for (auto* row = out.rgb.data(); row != out.rgb.data() + out.rgb.size(); row += row_bytes) {
    if (!opened.rows->read_row(row)) break;
  }
  return opened.rows->status();
}

DecodeStatus read_any_size(std::string_view bytes, JpegDecoder& decoder, int& width, int& height) {
  const std::string format = image_format(bytes);
  if (format == "JPEG") return decoder.read_size(bytes, width, height);
  if (format == "PNG") return read_png_size(bytes, width, height);
  if (format == "TIFF") return read_tiff_size(bytes, width, height);
  if (format == "WebP") return read_webp_size(bytes, width, height);
  return {.ok = false, .problem = describe_other_format(bytes, kImageFormats)};
}

}  // namespace retina
