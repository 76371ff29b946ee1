#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "shared/base/cat.h"
#include "shared/image/image_file.h"

namespace retina {
namespace {

// libpng calls back into this and leaves by longjmp: every function that calls setjmp holds plain
// values only, so that no destructor is ever jumped over.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf escape{};
  std::array<char, 200> error_text{}, warning_text{};
  int warning_count = 0;
  bool lacks_memory = false, ended_early = false;
  bool is_whole = false;  // every row came, and with them the checksums of their data
  const char* next = nullptr;
  std::size_t left_bytes = 0;

  explicit PngReader(std::string_view bytes) : next(bytes.data()), left_bytes(bytes.size()) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  static void copy(png_const_charp text, std::array<char, 200>& to) {
    std::snprintf(to.data(), to.size(), "%s", text);
  }

  [[noreturn]] static void on_error(png_structp from, png_const_charp text) {
    PngReader& reader = *static_cast<PngReader*>(png_get_error_ptr(from));
    copy(text, reader.error_text);
    std::longjmp(reader.escape, 1);
  }

  static void on_warning(png_structp from, png_const_charp text) {
    PngReader& reader = *static_cast<PngReader*>(png_get_error_ptr(from));
    if (reader.warning_count++ == 0) copy(text, reader.warning_text);
  }

  static png_voidp allocate(png_structp from, png_alloc_size_t size_bytes) {
    void* const memory = std::malloc(size_bytes);
    if (memory == nullptr) static_cast<PngReader*>(png_get_mem_ptr(from))->lacks_memory = true;
    return memory;
  }
  static void release(png_structp, png_voidp memory) { std::free(memory); }

  static void read(png_structp from, png_bytep to, std::size_t count) {
    PngReader& reader = *static_cast<PngReader*>(png_get_io_ptr(from));
    if (count > reader.left_bytes) {
      reader.ended_early = true;
      png_error(from, "the file ends too early");
    }
    std::memcpy(to, reader.next, count);
    reader.next += count;
    reader.left_bytes -= count;
  }

  // Everything before the pixels.
  bool read_header() {
    png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this,
                                   allocate, release);
    if (png == nullptr || setjmp(escape) != 0) return false;
    info = png_create_info_struct(png);
    if (info == nullptr) return false;
    png_set_read_fn(png, this, read);
    png_set_user_limits(png, kMaxSidePx, kMaxSidePx);
    // Texts, profiles and the like: compressed, they can be bombs.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    return true;
  }

  // All rows into `rgb`, which has room for width * height * 3.
  bool read_pixels(std::uint8_t* rgb, std::uint32_t width, std::uint32_t height) {
    if (setjmp(escape) != 0) return is_whole;
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    const int pass_count = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const std::size_t row_bytes = std::size_t{width} * 3;
    if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "rows of an unexpected length");
    for (int pass = 0; pass < pass_count; ++pass) {
      for (std::size_t y = 0; y < height; ++y) png_read_row(png, rgb + y * row_bytes, nullptr);
    }
    is_whole = true;
    png_read_end(png, nullptr);
    return true;
  }

  DecodeStatus status(bool ok) const {
    if (lacks_memory) throw std::bad_alloc();
    DecodeStatus status{.ok = ok, .warning_count = warning_count};
    if (warning_count > 0) status.first_warning = warning_text.data();
    if (!ok) {
      status.problem = cat("damaged PNG: ", error_text.data());
    } else if (error_text[0] != '\0' && status.warning_count++ == 0) {
      status.first_warning = error_text.data();  // after the pixels
    }
    return status;
  }
};

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

}  // namespace

DecodeStatus read_png_size(std::string_view bytes, int& width, int& height) {
  if (bytes.size() < 24 || bytes.substr(12, 4) != "IHDR") {
    return {.ok = false, .problem = "damaged PNG: no header"};
  }
  const std::uint32_t wide = big_endian(bytes.substr(16)), high = big_endian(bytes.substr(20));
  if (wide < 1 || high < 1 || wide > kMaxSidePx || high > kMaxSidePx) {
    return {.ok = false, .problem = cat("damaged PNG: a size of ", wide, "x", high)};
  }
  width = static_cast<int>(wide);
  height = static_cast<int>(high);
  return {.ok = true};
}

DecodeStatus decode_png(std::string_view bytes, std::uint64_t /*max_pixels*/, Image& out) {
  const auto reader = std::make_unique<PngReader>(bytes);
  if (!reader->read_header()) {
    if (reader->png == nullptr || reader->info == nullptr) throw std::bad_alloc();
    return reader->status(false);
  }
  const auto width = static_cast<std::uint32_t>(out.width);
  const auto height = static_cast<std::uint32_t>(out.height);
  out.rgb.resize(std::size_t{width} * height * 3);
  const bool ok = reader->read_pixels(out.rgb.data(), width, height);
  return reader->status(ok);
}

}  // namespace retina
