// The rows of one open image file, whatever its format: the interface between row_reader.h and the
// decoders.
#pragma once

#include <cstdint>
#include <memory>

#include "shared/image/decode_status.h"
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
  // Returns the number of the library's complaints up to now.
  virtual int warning_count() const = 0;
  // Returns the status of everything read so far. Throws std::bad_alloc if memory was lacking.
  virtual DecodeStatus status() const = 0;
};

struct OpenRows {
  DecodeStatus status{};               // of the header
  int width = 0, height = 0;           // valid if status.ok
  std::unique_ptr<FormatRows> rows{};  // null if !status.ok
};

// Open a file whose format is known by image_format(). `bytes` must live as long as the rows. With
// `is_deep` samples of more than 8 bits are not reduced to 8, and bands may be colours.

// Opens a JPEG. A `shrink` of 2, 4 or 8 divides the sides by it, rounded up (libjpeg's scaled DCT).
OpenRows open_jpeg_rows(ImageBytes& bytes, int shrink = 1);
// Opens a PNG. For an interlaced one `rows` is null although the status is ok.
OpenRows open_png_rows(ImageBytes& bytes, bool is_deep = false);
OpenRows open_tiff_rows(ImageBytes& bytes, bool is_deep = false);

}  // namespace retina
