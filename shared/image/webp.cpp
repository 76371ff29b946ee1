#include <webp/decode.h>

#include <new>

#include "shared/base/cat.h"
#include "shared/image/image_file.h"

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

DecodeStatus decode_webp(std::string_view bytes, std::uint64_t /*max_pixels*/, Image& out) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return refused(VP8_STATUS_INVALID_PARAM);
  out.rgb.resize(static_cast<std::size_t>(out.width) * static_cast<std::size_t>(out.height) * 3);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out.rgb.data();
  config.output.u.RGBA.stride = out.width * 3;
  config.output.u.RGBA.size = out.rgb.size();
  const VP8StatusCode code = WebPDecode(begin_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? DecodeStatus{.ok = true} : refused(code);
}

}  // namespace retina
