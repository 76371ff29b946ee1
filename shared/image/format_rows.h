// The rows of one open image file, whatever its format: the interface between row_reader.h and the
// decoders.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"
#include "shared/image/image_bytes.h"

namespace retina {

class FormatRows {
 public:
  virtual ~FormatRows() = default;
  // Reads the next row to `rgb` [width, 3], or skips rows. Returns false if it cannot be decoded;
  // status() has the reason. Callers ask for no more rows than there are.
  virtual bool read_row(std::uint8_t* rgb) = 0;
  virtual bool skip_rows(int count) = 0;
  // Returns true if samples have more than 8 bits; read_deep_row() then replaces read_row().
  virtual bool is_deep() const { return false; }
  virtual bool read_deep_row(std::uint16_t* /*rgb*/) { return false; }
  // Returns the status of everything read so far. Throws std::bad_alloc if memory was lacking.
  virtual DecodeStatus status() const = 0;
};

// Rows of an image that can only be decoded whole.
class WholeRows : public FormatRows {
 public:
  WholeRows(DecodeStatus status, Image image)
      : status_(std::move(status)), image_(std::move(image)) {}

  bool read_row(std::uint8_t* rgb) override {
    std::memcpy(rgb, image_.pixel(0, next_), 3 * static_cast<std::size_t>(image_.width));
    return skip_rows(1);
  }
  bool skip_rows(int count) override {
    next_ += count;
    return true;
  }
  DecodeStatus status() const override { return status_; }

 private:
  DecodeStatus status_;
  Image image_;
  int next_ = 0;
};

struct OpenRows {
  DecodeStatus status{};               // the header's
  int width = 0, height = 0;           // valid if status.ok
  std::unique_ptr<FormatRows> rows{};  // null if !status.ok
};

// Options for opening a file.
struct OpenOptions {
  int jpeg_shrink = 1;  // 2, 4 or 8 divides a JPEG's sides by it, rounded up (libjpeg's scaled DCT)
  bool is_deep = false;  // samples of more than 8 bits are not reduced, and bands may be colours
};

// Opens a file of a supported `format`, as image_format() names it. `bytes` must live as long as
// the rows.
OpenRows open_rows(const std::string& format, ImageBytes& bytes, const OpenOptions& options = {});

// Open a file of one format, and read the size from its header.
OpenRows open_jpeg_rows(ImageBytes& bytes, int shrink);
OpenRows open_png_rows(ImageBytes& bytes, bool is_deep);
OpenRows open_tiff_rows(ImageBytes& bytes, bool is_deep);
OpenRows open_webp_rows(ImageBytes& bytes);
DecodeStatus read_png_size(std::string_view bytes, int& width, int& height);
DecodeStatus read_tiff_size(std::string_view bytes, int& width, int& height);
DecodeStatus read_webp_size(std::string_view bytes, int& width, int& height);

}  // namespace retina
