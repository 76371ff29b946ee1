#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs FILE and size_t declared before it.
#include <jpeglib.h>
// For the messages' numbers; must follow jpeglib.h.
#include <jerror.h>

#include <array>
#include <memory>
#include <new>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

// Holds plain values only, as in the decoder, between setjmp and longjmp.
struct Encoder {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> error_text{};
  unsigned char* bytes = nullptr;  // allocated by libjpeg with malloc
  unsigned long size_bytes = 0;

  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }

  [[noreturn]] static void on_error(j_common_ptr info) {
    Encoder& encoder = *static_cast<Encoder*>(info->client_data);
    info->err->format_message(info, encoder.error_text.data());
    std::longjmp(encoder.escape, 1);
  }
  static void no_message(j_common_ptr, int) {}

  bool run(const Image& image, int quality, ChromaSize chroma) {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = no_message;
    info.client_data = this;
    if (setjmp(escape) != 0) return false;
    jpeg_create_compress(&info);
    info.client_data = this;
    jpeg_mem_dest(&info, &bytes, &size_bytes);
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);  // 4:2:0
    if (chroma == ChromaSize::kFull) info.comp_info[0].h_samp_factor = 1;
    if (chroma == ChromaSize::kFull) info.comp_info[0].v_samp_factor = 1;
    jpeg_set_quality(&info, quality, TRUE);
    info.optimize_coding = TRUE;
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      // libjpeg's interface lacks the const.
      auto* row = const_cast<std::uint8_t*>(image.pixel(0, static_cast<int>(info.next_scanline)));
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    return true;
  }
};

}  // namespace

std::string encode_jpeg(const Image& image, int quality, ChromaSize chroma) {
  RETINA_CHECK(image.width > 0 && image.height > 0, "image of ", image.width, "x", image.height);
  RETINA_CHECK(quality >= 1 && quality <= 100, "quality ", quality);
  const auto encoder = std::make_unique<Encoder>();
  if (!encoder->run(image, quality, chroma)) {
    const int code = encoder->errors.msg_code;
    if (code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE) throw std::bad_alloc();
    throw Error(ErrorKind::kInternal, cat("libjpeg: ", encoder->error_text.data()));
  }
  return {reinterpret_cast<const char*>(encoder->bytes), encoder->size_bytes};
}

}  // namespace retina
