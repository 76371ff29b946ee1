// Reads an image file by rows, forward only and in bounded memory: for images that are too large to
// be held whole. Pixels, warnings and refusals are those of decode_any_image(), which decodes whole
// files with the same code.
//
// Memory holds a row of blocks of a JPEG, a row of a PNG, a strip or a row of tiles of a TIFF.
// Progressive JPEGs, interlaced PNGs and WebP are held whole; those and TIFF's strips are refused
// above kDefaultMaxPixels, with a hint. The only other limit of an image is kMaxSidePx.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/image/decode_status.h"
#include "shared/image/format_rows.h"
#include "shared/image/image.h"
#include "shared/image/stretch.h"

namespace retina {

struct RowOptions {
  int jpeg_shrink = 1;  // divisor of a JPEG's sides, which are rounded up: 1, 2, 4 or 8
  // Turns whole-number samples of 9 to 16 bits, negative ones too, into 8 bits after a pass over
  // the whole file. The first three samples of a pixel are red, green and blue; of two, the first
  // is grey. Unset: such samples are refused or reduced to 8 bits, as check_range() says. Has no
  // effect on images of 8 bits.
  std::optional<Stretch> stretch{};
};

class RowReader {
 public:
  // Reads the header and, for a stretch, once the whole image. Throws as FileReader; faults of the
  // image are in status().
  explicit RowReader(const std::string& path, const RowOptions& options = {});
  // Reads a file's content, which must outlive the reader.
  explicit RowReader(const ImageBytes& bytes, const RowOptions& options = {});
  ~RowReader();
  RowReader(RowReader&&) = delete;

  // Returns the status of everything read so far: not ok if the header or a row could not be read.
  // Problems name the row ("damaged PNG: bad CRC (at row 15210)"), counted from 0. An image whose
  // end is missing may be ok and truncated: its rows from about there on are filler.
  const DecodeStatus& status() const { return status_; }

  // Returns the format by content, as image_format() names it.
  const std::string& format() const { return format_; }
  // Return the image's size in pixels, after jpeg_shrink; valid if the header was ok.
  int width() const { return width_; }
  int height() const { return height_; }
  // Returns the row that read() begins with.
  int next_row() const { return next_row_; }

  // Reads the next `count` rows, fewer at the image's end, to `out`, whose storage is reused.
  // Returns status(); `out` is unspecified if it is not ok. Throws kIo.
  const DecodeStatus& read(int count, Image& out);
  // Skips the next `count` rows, whose damage may go unnoticed; later rows are as after read().
  // Returns status().
  const DecodeStatus& skip(int count);

 private:
  void open(const RowOptions& options);
  void stretch(const RowOptions& options);
  bool read_row(std::uint8_t* rgb);
  void update();

  std::optional<FileReader> file_{};
  ImageBytes bytes_;
  std::string format_{};
  int width_ = 0, height_ = 0, next_row_ = 0;
  DecodeStatus status_{};
  std::unique_ptr<FormatRows> rows_{};
  std::array<std::vector<std::uint8_t>, 3> tables_{};  // 8 bits of each sample, by channel
  std::vector<std::uint16_t> deep_row_{};
};

// Returns true if the header says that only a stretch makes the file readable. Throws as
// FileReader.
bool may_be_stretched(ImageBytes bytes);

// Decodes as decode_any_image() does, with a stretch; refuses more pixels than kDefaultMaxPixels.
DecodeStatus decode_stretched(std::string_view bytes, const Stretch& stretch, Image& out);

struct ReducedImage {
  DecodeStatus status{};      // as RowReader::status()
  int width = 0, height = 0;  // size of the image in the file
  Image image{};              // sides of max_side_px at most; valid if status.ok
};

// Returns the whole image, its sides divided by the smallest whole number that makes the longer one
// at most `max_side_px`, and rounded up: each pixel is the mean of a square. JPEGs are decoded
// smaller if possible. Throws as RowReader.
ReducedImage read_reduced(const std::string& path, int max_side_px,
                          const std::optional<Stretch>& stretch = {});

}  // namespace retina
