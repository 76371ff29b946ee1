#include <png.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/image/format_rows.h"

namespace retina {
namespace {

// libpng calls back into this and leaves by longjmp: every function that calls setjmp holds plain
// values only, so that no destructor is ever jumped over.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf escape{};
  std::array<char, 200> error_text{};
  bool lacks_memory = false;
  bool is_deep = false;   // rows are of 16 bits a sample
  int pass_count = 0;     // 1 unless it is interlaced
  int narrowed_bits = 0;  // bits of the file's samples, if rows have their upper 8
  unsigned largest = 0;   // largest of these samples so far
  ImageBytes& bytes;
  std::uint64_t at = 0;

  explicit PngReader(ImageBytes& content) : bytes(content) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  [[noreturn]] static void on_error(png_structp from, png_const_charp text) {
    PngReader& reader = *static_cast<PngReader*>(png_get_error_ptr(from));
    std::snprintf(reader.error_text.data(), reader.error_text.size(), "%s", text);
    std::longjmp(reader.escape, 1);
  }

  static void on_warning(png_structp, png_const_charp) {}

  static png_voidp allocate(png_structp from, png_alloc_size_t size_bytes) {
    void* const memory = std::malloc(size_bytes);
    if (memory == nullptr) static_cast<PngReader*>(png_get_mem_ptr(from))->lacks_memory = true;
    return memory;
  }
  static void release(png_structp, png_voidp memory) { std::free(memory); }

  static void read(png_structp from, png_bytep to, std::size_t count) {
    PngReader& reader = *static_cast<PngReader*>(png_get_io_ptr(from));
    if (reader.bytes.read_at(reader.at, reinterpret_cast<char*>(to), count) < count) {
      png_error(from, "the file ends too early");
    }
    reader.at += count;
  }

  // Keeps the upper 8 of 16 bits, as png_set_strip_16() does it, but notes the largest sample.
  static void narrow(png_structp from, png_row_infop row, png_bytep bytes) {
    PngReader& reader = *static_cast<PngReader*>(png_get_user_transform_ptr(from));
    for (std::size_t i = 0; i < row->rowbytes / 2; ++i) {
      reader.largest = std::max(reader.largest, 256U * bytes[2 * i] + bytes[2 * i + 1]);
      bytes[i] = bytes[2 * i];
    }
  }

  // Reads everything before the pixels.
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

  // Starts decoding, after the header: rows will be RGB, with `keep_deep` of 16 bits if the file
  // has them.
  bool start(bool keep_deep) {
    if (setjmp(escape) != 0) return false;
    const int bits = png_get_bit_depth(png, info);
    is_deep = keep_deep && bits == 16;
    png_set_expand(png);
    if (bits == 16 && !is_deep) {
      narrowed_bits = bits;
      png_set_read_user_transform_fn(png, narrow);
      png_set_user_transform_info(png, this, 8, 3);
    } else if constexpr (std::endian::native == std::endian::little) {
      png_set_swap(png);
    }
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    pass_count = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) !=
        std::size_t{png_get_image_width(png, info)} * (is_deep ? 6 : 3)) {
      png_error(png, "rows of an unexpected length");
    }
    return true;
  }

  // Reads the next `count` rows into `rgb`; for an interlaced image they must be all rows.
  bool read_rows(std::uint8_t* rgb, std::size_t count) {
    if (setjmp(escape) != 0) return false;
    const std::size_t row_bytes = png_get_rowbytes(png, info);
    for (int pass = 0; pass < pass_count; ++pass) {
      for (std::size_t y = 0; y < count; ++y) png_read_row(png, rgb + y * row_bytes, nullptr);
    }
    return true;
  }

  // Finishes, after the last row: errors beyond it are mere warnings.
  void finish() {
    if (setjmp(escape) != 0) return;
    png_read_end(png, nullptr);
  }

  bool begin(bool keep_deep) {
    if (read_header()) return start(keep_deep);
    if (png == nullptr || info == nullptr) throw std::bad_alloc();
    return false;
  }

  // Returns the status; `is_whole` says that the last row was read.
  DecodeStatus status(bool ok, bool is_whole) const {
    bytes.rethrow();
    if (lacks_memory) throw std::bad_alloc();
    if (ok && is_whole) {
      if (auto range = check_range("PNG", narrowed_bits, largest); !range.ok) return range;
    }
    if (!ok) return {.ok = false, .problem = cat("damaged PNG: ", error_text.data())};
    return {.ok = true, .first_warning = error_text.data()};  // an error after the pixels
  }
};

// Reads the rows of a PNG.
class PngRows : public FormatRows {
 public:
  PngRows(ImageBytes& bytes, int width, int height)
      : reader_(bytes), left_rows_(height), skipped_(6 * static_cast<std::size_t>(width)) {}

  bool open(bool keep_deep) { return ok_ = reader_.begin(keep_deep); }
  bool is_interlaced() const { return reader_.pass_count > 1; }
  // Reads the next rows; all of them if the image is interlaced.
  bool read_rows(std::uint8_t* rgb, int count) {
    ok_ = ok_ && reader_.read_rows(rgb, static_cast<std::size_t>(count));
    if (ok_ && (left_rows_ -= count) == 0) reader_.finish();
    return ok_;
  }

  bool is_deep() const override { return reader_.is_deep; }
  bool read_row(std::uint8_t* rgb) override { return read_rows(rgb, 1); }
  bool read_deep_row(std::uint16_t* rgb) override {
    return read_row(reinterpret_cast<std::uint8_t*>(rgb));
  }
  bool skip_rows(int count) override {
    for (int i = 0; i < count && ok_; ++i) read_row(skipped_.data());
    return ok_;
  }
  DecodeStatus status() const override { return reader_.status(ok_, left_rows_ == 0); }

 private:
  PngReader reader_;
  int left_rows_;
  bool ok_ = false;
  std::vector<std::uint8_t> skipped_;
};

// Returns the rows of an interlaced image, decoded at once.
OpenRows open_interlaced(PngRows& png, OpenRows out) {
  const auto refused = [](const std::string& problem) {
    return OpenRows{.status = {.ok = false, .problem = problem, .unsupported = true}};
  };
  if (png.is_deep()) {
    return refused("an interlaced PNG of 16 bits, which cannot be stretched; make it a plain one");
  }
  if (has_too_many_pixels(out.width, out.height, kDefaultMaxPixels, out.status.problem)) {
    return refused(
        cat(out.status.problem, "; an interlaced PNG must be held in memory: make it a plain one"));
  }
  Image image(out.width, out.height);
  png.read_rows(image.rgb.data(), out.height);
  out.status = png.status();
  if (out.status.ok) out.rows = std::make_unique<WholeRows>(out.status, std::move(image));
  return out;
}

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

OpenRows open_png_rows(ImageBytes& bytes, bool is_deep) {
  OpenRows out;
  std::array<char, 24> start{};
  const std::size_t count = bytes.read_at(0, start.data(), start.size());
  bytes.rethrow();
  out.status = read_png_size({start.data(), count}, out.width, out.height);
  if (!out.status.ok) return out;
  auto rows = std::make_unique<PngRows>(bytes, out.width, out.height);
  rows->open(is_deep);
  out.status = rows->status();
  if (!out.status.ok) return out;
  if (rows->is_interlaced()) return open_interlaced(*rows, std::move(out));
  out.rows = std::move(rows);
  return out;
}

}  // namespace retina
