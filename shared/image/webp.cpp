#include <webp/decode.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "shared/base/cat.h"
#include "shared/image/format_rows.h"

namespace retina {
namespace {

const std::uint8_t* begin_of(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

const char* text_of(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file ends too early";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "its data contradict themselves";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses what libwebp does not know";
    default:
      return "libwebp cannot decode it";
  }
}

DecodeStatus refused(VP8StatusCode code) {
  if (code == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  return {.ok = false, .problem = cat("damaged WebP: ", text_of(code))};
}

}  // namespace

DecodeStatus read_webp_size(std::string_view bytes, int& width, int& height) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(begin_of(bytes), bytes.size(), &features);
  if (code != VP8_STATUS_OK) return refused(code);
  if (features.has_animation != 0) {
    return {.ok = false, .problem = "an animated WebP", .unsupported = true};
  }
  width = features.width;
  height = features.height;
  return {.ok = true};
}

OpenRows open_webp_rows(ImageBytes& content) {
  std::string bytes(content.size_bytes(), '\0');
  bytes.resize(content.read_at(0, bytes.data(), bytes.size()));
  content.rethrow();
  OpenRows out;
  out.status = read_webp_size(bytes, out.width, out.height);
  if (!out.status.ok) return out;
  if (has_too_many_pixels(out.width, out.height, kDefaultMaxPixels, out.status.problem)) {
    out.status = {
        .ok = false,
        .problem = cat(out.status.problem, "; a WebP must be held in memory: make it a tiled TIFF"),
        .unsupported = true};
    return out;
  }
  Image image(out.width, out.height);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw std::bad_alloc();
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image.rgb.data();
  config.output.u.RGBA.stride = out.width * 3;
  config.output.u.RGBA.size = image.rgb.size();
  const VP8StatusCode code = WebPDecode(begin_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (code != VP8_STATUS_OK) out.status = refused(code);
  if (out.status.ok) out.rows = std::make_unique<WholeRows>(out.status, std::move(image));
  return out;
}

}  // namespace retina
