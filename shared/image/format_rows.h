// The rows of one open image file, whatever its format: what row_reader.h needs of a decoder.
#pragma once

#include <cstdint>
#include <memory>

#include "shared/image/decode_status.h"
#include "shared/image/image_bytes.h"

namespace retina {

class FormatRows {
 public:
  virtual ~FormatRows() = default;
  // The next row to `rgb` [width, 3], or past it. False: it cannot be decoded, as status() says.
  // Nobody asks for more rows than there are.
  virtual bool read_row(std::uint8_t* rgb) = 0;
  virtual bool skip_rows(int count) = 0;
  // Whether samples have more than 8 bits; read_deep_row() is then in the place of read_row().
  virtual bool is_deep() const { return false; }
  virtual bool read_deep_row(std::uint16_t* /*rgb*/) { return false; }
  // The library's complaints up to now.
  virtual int warning_count() const = 0;
  // Of what has been read. Throws std::bad_alloc where memory was lacking.
  virtual DecodeStatus status() const = 0;
};

struct OpenRows {
  DecodeStatus status{};               // of the header
  int width = 0, height = 0;           // where status.ok
  std::unique_ptr<FormatRows> rows{};  // nullptr when !status.ok
};

// For a file that has the format by image_format(). `bytes` must live as long as the rows. With
// `is_deep` samples of more than 8 bits are not brought to 8, and bands may be colours.

// A `shrink` of 2, 4 or 8 divides the sides by it, rounded up (libjpeg's scaled DCT).
OpenRows open_jpeg_rows(ImageBytes& bytes, int shrink = 1);
// Interlaced: `rows` is nullptr although the status is ok.
OpenRows open_png_rows(ImageBytes& bytes, bool is_deep = false);
OpenRows open_tiff_rows(ImageBytes& bytes, bool is_deep = false);

}  // namespace retina
