// libretina_onnx_guard.so: the check of inference models for programs in other languages, such as
// the server in jobs/serving.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/onnx/onnx_check.h"

// Returns 0 when the bytes of a file are an inference model that retina-convert can have written,
// else the exit code that the programs would give; `message` then is one line of UTF-8 that begins
// with "model: ", cut to `message_bytes` with its closing zero. Safe to call from several threads.
extern "C" int retina_onnx_check(const unsigned char* file, std::size_t file_bytes, char* message,
                                 std::size_t message_bytes) {
  const auto tell = [&](int code, std::string_view text) {
    if (message_bytes > 0) {
      const std::size_t size = std::min(text.size(), message_bytes - 1);
      std::memcpy(message, text.data(), size);
      message[size] = '\0';
    }
    return code;
  };
  try {
    retina::check_onnx_model({reinterpret_cast<const char*>(file), file_bytes}, "model");
    return tell(0, "");
  } catch (const retina::Error& error) {
    return tell(retina::exit_code(error.kind()), error.what());
  } catch (const std::exception& error) {
    return tell(70, error.what());
  }
}
