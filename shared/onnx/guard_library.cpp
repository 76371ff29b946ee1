// libretina_onnx_guard.so: functions for programs in other languages, such as the server in
// jobs/serving: the check of inference models and the decoder of JPEGs.
//
// Each function returns 0 or the exit code that the programs would return; `message` then is one
// line of UTF-8, cut to `message_bytes` with its closing zero. Safe to call from several threads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <string_view>

#include "shared/base/error.h"
#include "shared/image/jpeg.h"
#include "shared/onnx/onnx_check.h"

namespace {

template <typename Work>
int result_of(const Work& work, char* message, std::size_t message_bytes) {
  const auto report = [&](int code, std::string_view text) {
    if (message_bytes > 0) {
      const std::size_t size = std::min(text.size(), message_bytes - 1);
      std::memcpy(message, text.data(), size);
      message[size] = '\0';
    }
    return code;
  };
  try {
    work();
    return report(0, "");
  } catch (const retina::Error& error) {
    return report(retina::exit_code(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return report(70, "there is no memory for it");
  } catch (const std::exception& error) {
    return report(70, error.what());
  }
}

void require_usable(const retina::DecodeStatus& status) {
  const auto reason = unusable_reason(status, policy_on_foreign_files(status));
  if (!reason.empty()) throw retina::Error(retina::ErrorKind::kData, reason);
}

}  // namespace

// Checks that the bytes of a file are an inference model that retina-convert can have written;
// `message` begins with "model: ".
extern "C" int retina_onnx_check(const char* file, std::size_t file_bytes, char* message,
                                 std::size_t message_bytes) {
  const auto check = [&] { retina::check_onnx_model({file, file_bytes}, "model"); };
  return result_of(check, message, message_bytes);
}

// Reads the size of a JPEG from its header: `size` [2] is its width and height.
extern "C" int retina_jpeg_size(const char* file, std::size_t file_bytes, int* size, char* message,
                                std::size_t message_bytes) {
  const auto read = [&] {
    require_usable(retina::JpegDecoder().read_size({file, file_bytes}, size[0], size[1]));
  };
  return result_of(read, message, message_bytes);
}

// Decodes a JPEG to `planes` [3, height, width], RGB. Refuses one that takes longer than
// `max_seconds`, or whose planes do not have `plane_bytes` in all.
extern "C" int retina_jpeg_decode(const char* file, std::size_t file_bytes, double max_seconds,
                                  unsigned char* planes, std::size_t plane_bytes, char* message,
                                  std::size_t message_bytes) {
  const auto decode = [&] {
    retina::JpegDecoder decoder(std::numeric_limits<std::uint64_t>::max(), max_seconds);
    retina::Image image;
    require_usable(decoder.decode({file, file_bytes}, image));
    if (image.rgb.size() != plane_bytes) {
      throw retina::Error(retina::ErrorKind::kData, "has another size than its header says");
    }
    const std::size_t pixel_count = plane_bytes / 3;
    for (std::size_t i = 0; i < pixel_count; ++i) {
      for (std::size_t c = 0; c < 3; ++c) planes[c * pixel_count + i] = image.rgb[i * 3 + c];
    }
  };
  return result_of(decode, message, message_bytes);
}
